/**
 * The models that the bench and the tests know, by the name of their file: which group a model is in, and what it is fed where its file leaves dims
 * open or wants certain values. Where the files come from: files.mjs.
 */
const CONVOLUTIONAL = "convolutional";
const SMALL = "small";
const TRANSFORMER = "transformer";

const floats = (name, ...dims) => ({ name, dtype: "float32", dims });
const rate = { name: "sr", dtype: "int64", dims: [], value: 16000 };
const voice = [floats("input", 1, 576), floats("state", 2, 1, 128)];

/** How many times as fast as onnxruntime-web a model of a group shall be with as many threads, by the major version of Node. */
export const GOALS = {
  [CONVOLUTIONAL]: { 20: 1.5, 24: 2.5 },
  [SMALL]: { 20: 1.3, 24: 1.3 },
};
/** The same for the geometric mean over the models of all groups that have a goal. */
export const MEAN_GOAL = { 20: 1.8, 24: 3 };

// biome-ignore format: table
export const CATALOG = [
  { file: "super_resolution_10", group: CONVOLUTIONAL, feeds: [floats("input", 1, 1, 224, 224)] },
  { file: "ultraface_rfb_320", group: CONVOLUTIONAL },
  { file: "deeplab_mobilenetv2", group: CONVOLUTIONAL },
  { file: "light_bvlc_alexnet", group: CONVOLUTIONAL },
  { file: "light_densenet121", group: CONVOLUTIONAL },
  { file: "light_resnet50", group: CONVOLUTIONAL },
  { file: "light_shufflenet", group: CONVOLUTIONAL },
  { file: "light_squeezenet", group: CONVOLUTIONAL },
  { file: "ch_PP-OCRv4_det_infer", group: CONVOLUTIONAL, feeds: [{ ...floats("x", 1, 3, 384, 640), picture: true }] },
  { file: "ch_PP-OCRv4_rec_infer", group: CONVOLUTIONAL, feeds: [floats("x", 1, 3, 48, 320)] },
  { file: "ch_ppocr_mobile_v2.0_cls_infer", group: CONVOLUTIONAL, feeds: [floats("x", 1, 3, 48, 192)] },
  { file: "fr_age", group: CONVOLUTIONAL },
  { file: "fr_detect", group: CONVOLUTIONAL },
  { file: "fr_expression", group: CONVOLUTIONAL },
  { file: "fr_eye", group: CONVOLUTIONAL },
  { file: "fr_feature", group: CONVOLUTIONAL },
  { file: "fr_gender", group: CONVOLUTIONAL },
  { file: "fr_landmark", group: CONVOLUTIONAL },
  { file: "fr_liveness", group: CONVOLUTIONAL },
  { file: "fr_pose", group: CONVOLUTIONAL },
  { file: "face_detection_front_128x128_barracuda", group: CONVOLUTIONAL },
  { file: "face_detection_back_256x256_barracuda", group: CONVOLUTIONAL },
  { file: "mnist_8", group: SMALL },
  { file: "dtln_1", group: SMALL },
  { file: "dtln_2", group: SMALL },
  { file: "gtcrn", group: SMALL },
  { file: "gtcrn_simplified", group: SMALL },
  { file: "silero_vad", group: SMALL, feeds: [...voice, rate] },
  { file: "silero_vad_16k_op15", group: SMALL, feeds: [...voice, rate] },
  { file: "silero_vad_half", group: SMALL, feeds: voice },
  { file: "silero_vad_op18_ifless", group: SMALL, feeds: [...voice, rate] },
  { file: "magika_v3_3", group: SMALL, feeds: [{ name: "bytes", dtype: "int32", dims: [1, 2048], below: 257 }] },
  { file: "bert_layer_768", group: TRANSFORMER },
  { file: "bert_4_layers_312", group: TRANSFORMER },
  { file: "bert_4_layers_768", group: TRANSFORMER },
];
