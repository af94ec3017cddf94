/**
 * The runtime's public C calls, by the sections of its manual. What the table of lib/acl has counts as it says; the rest is listed here with what it would
 * take: "open" (not built yet) or why it does not apply to an emulator in one process.
 */
export interface Section {
  readonly title: string;
  readonly calls: readonly string[];
}

const list = (text: string): string[] => text.trim().split(/\s+/);

export const SECTIONS: readonly Section[] = [
  {
    title: "Initialisation and versions",
    calls:
      list(`aclInit aclFinalize aclFinalizeReference aclInitCallbackRegister aclInitCallbackUnRegister aclFinalizeCallbackRegister aclFinalizeCallbackUnRegister
      aclGetRecentErrMsg aclrtGetVersion aclsysGetVersionStr aclsysGetVersionNum aclsysGetCANNVersion aclGetCannAttributeList aclGetCannAttribute aclGetDeviceCapability
      aclAppLog aclDataTypeSize aclFloat16ToFloat aclFloatToFloat16 aclrtGetSocName`),
  },
  {
    title: "Devices",
    calls:
      list(`aclrtSetDevice aclrtResetDevice aclrtResetDeviceForce aclrtGetDevice aclrtGetDeviceCount aclrtGetRunMode aclrtGetDeviceInfo aclrtGetDeviceCapability
      aclrtGetDeviceUtilizationRate aclrtQueryDeviceStatus aclrtDeviceGetStreamPriorityRange aclrtSetDeviceSatMode aclrtGetDeviceSatMode aclrtGetOverflowStatus
      aclrtResetOverflowStatus aclrtSynchronizeDevice aclrtSynchronizeDeviceWithTimeout aclrtDeviceTaskAbort aclrtSetDeviceResLimit aclrtGetDeviceResLimit
      aclrtResetDeviceResLimit aclrtSetStreamResLimit aclrtGetStreamResLimit aclrtResetStreamResLimit aclrtUseStreamResInCurrentThread
      aclrtUnuseStreamResInCurrentThread aclrtGetResInCurrentThread aclrtDeviceSetLimit aclrtDeviceGetLimit aclrtGetLogicDevIdByUserDevId
      aclrtGetUserDevIdByLogicDevId aclrtGetLogicDevIdByPhyDevId aclrtGetPhyDevIdByLogicDevId aclrtDeviceGetUuid aclrtDeviceGetPCIBusId
      aclrtDeviceGetByPCIBusId aclrtGetDevicesTopo aclrtRegDeviceStateCallback aclrtSetTsDevice aclrtDeviceGetBareTgid`),
  },
  {
    title: "Contexts",
    calls:
      list(`aclrtCreateContext aclrtDestroyContext aclrtSetCurrentContext aclrtGetCurrentContext aclrtCtxGetCurrentDefaultStream aclrtGetPrimaryCtxState
      aclrtCtxSetSysParamOpt aclrtCtxGetSysParamOpt aclrtSetSysParamOpt aclrtGetSysParamOpt`),
  },
  {
    title: "Streams",
    calls:
      list(`aclrtCreateStream aclrtCreateStreamWithConfig aclrtCreateStreamV2 aclrtCreateStreamConfigHandle aclrtSetStreamConfigOpt aclrtDestroyStreamConfigHandle
      aclrtDestroyStream aclrtDestroyStreamForce aclrtSynchronizeStream aclrtSynchronizeStreamWithTimeout aclrtStreamQuery aclrtSetStreamFailureMode aclrtStreamStop
      aclrtStreamAbort aclrtSetStreamAttribute aclrtGetStreamAttribute aclrtStreamGetId aclrtStreamGetFlags aclrtStreamGetPriority aclrtGetStreamAvailableNum
      aclrtSetStreamOverflowSwitch aclrtGetStreamOverflowSwitch aclrtPersistentTaskClean aclrtActiveStream aclrtSwitchStream aclrtRegStreamStateCallback
      aclrtGetThreadLastTaskId aclrtValueWrite aclrtValueWait aclrtSetOpWaitTimeout aclrtSetOpExecuteTimeOut aclrtSetOpExecuteTimeOutV2
      aclrtSetOpExecuteTimeOutWithMs aclrtGetOpTimeOutInterval aclrtGetOpExecuteTimeout`),
  },
  {
    title: "Events",
    calls: list(`aclrtCreateEvent aclrtCreateEventWithFlag aclrtCreateEventExWithFlag aclrtRecordEvent aclrtRecordEventWithFlag aclrtStreamWaitEvent
      aclrtStreamWaitEventWithTimeout aclrtStreamWaitEventWithFlag aclrtResetEvent aclrtQueryEventStatus aclrtQueryEvent aclrtQueryEventWaitStatus
      aclrtSynchronizeEvent aclrtSynchronizeEventWithTimeout aclrtEventElapsedTime aclrtEventGetTimestamp aclrtGetEventId aclrtGetEventAvailNum
      aclrtDestroyEvent aclrtIpcGetEventHandle aclrtIpcOpenEventHandle`),
  },
  {
    title: "Notifies and labels",
    calls:
      list(`aclrtCreateNotify aclrtDestroyNotify aclrtGetNotifyId aclrtRecordNotify aclrtWaitAndResetNotify aclrtNotifyBatchReset aclrtNotifyGetExportKey
      aclrtNotifySetImportPid aclrtNotifyImportByKey aclrtCntNotifyCreate aclrtCntNotifyRecord aclrtCntNotifyWaitWithTimeout aclrtCntNotifyReset
      aclrtCntNotifyGetId aclrtCntNotifyDestroy aclrtCreateLabel aclrtDestroyLabel aclrtCreateLabelList aclrtDestroyLabelList aclrtSetLabel aclrtSwitchLabelByIndex`),
  },
  {
    title: "Callbacks and exceptions",
    calls:
      list(`aclrtSubscribeReport aclrtUnSubscribeReport aclrtLaunchCallback aclrtProcessReport aclrtLaunchHostFunc aclrtSubscribeHostFunc aclrtProcessHostFunc
      aclrtUnSubscribeHostFunc aclrtSetExceptionInfoCallback aclrtExceptionInfoCallbackRegister aclrtExceptionInfoCallbackUnregister
      aclrtGetTaskIdFromExceptionInfo aclrtGetStreamIdFromExceptionInfo aclrtGetThreadIdFromExceptionInfo aclrtGetDeviceIdFromExceptionInfo
      aclrtGetErrorCodeFromExceptionInfo aclrtGetArgsFromExceptionInfo aclrtGetFuncHandleFromExceptionInfo aclrtPeekAtLastError aclrtGetLastError
      aclrtGetErrorVerbose aclrtRepairError`),
  },
  {
    title: "Memory",
    calls:
      list(`aclrtMalloc aclrtMallocAlign32 aclrtMallocCached aclrtMemFlush aclrtMemInvalidate aclrtMallocWithCfg aclrtMallocForTaskScheduler aclrtFree
      aclrtFreeWithDevSync aclrtMallocHost aclrtMallocHostWithCfg aclrtFreeHost aclrtFreeHostWithDevSync aclrtGetMemInfo aclrtGetMemUsageInfo
      aclrtPointerGetAttributes aclrtCheckMemType aclrtMemGetAddressRange aclrtAllocatorCreateDesc aclrtAllocatorDestroyDesc aclrtAllocatorSetObjToDesc
      aclrtAllocatorSetAllocFuncToDesc aclrtAllocatorSetGetAddrFromBlockFuncToDesc aclrtAllocatorSetAllocAdviseFuncToDesc
      aclrtAllocatorSetFreeFuncToDesc aclrtAllocatorRegister aclrtAllocatorUnregister aclrtAllocatorGetByStream`),
  },
  {
    title: "Copies and fills",
    calls: list(`aclrtMemcpy aclrtMemcpyAsync aclrtMemcpyAsyncWithCondition aclrtMemcpy2d aclrtMemcpy2dAsync aclrtMemcpyBatch aclrtMemcpyBatchAsync
      aclrtMemcpyBatchV2 aclrtMemcpyBatchAsyncV2 aclrtGetMemcpyDescSize aclrtSetMemcpyDesc aclrtMemcpyAsyncWithDesc aclrtMemcpyAsyncWithOffset
      aclrtMemcpyToSymbol aclrtMemcpyFromSymbol aclrtMemcpyToSymbolAsync aclrtMemcpyFromSymbolAsync aclrtGetSymbolAddress aclrtGetSymbolSize
      aclrtMemset aclrtMemsetAsync aclrtMemsetD32 aclrtMemsetD32Async aclrtHostRegister aclrtHostRegisterV2 aclrtHostUnregister
      aclrtHostGetDevicePointer aclrtCmoAsync aclrtCmoAsyncWithBarrier aclrtCmoWaitBarrier aclrtCmoAsyncWithDesc aclrtReduceAsync aclrtRandomNumAsync
      aclrtTaskUpdateAsync`),
  },
  {
    title: "Virtual memory, pools, sharing, peers",
    calls:
      list(`aclrtMemGetAllocationGranularity aclrtMallocPhysical aclrtFreePhysical aclrtReserveMemAddress aclrtReserveMemAddressNoUCMemory aclrtReleaseMemAddress
      aclrtMapMem aclrtUnmapMem aclrtMemMapNoAccess aclrtMemSetAccess aclrtMemGetAccess aclrtMemExportToShareableHandle aclrtMemExportToShareableHandleV2
      aclrtMemSetPidToShareableHandle aclrtMemSetPidToShareableHandleV2 aclrtMemImportFromShareableHandle aclrtMemImportFromShareableHandleV2
      aclrtMemRetainAllocationHandle aclrtMemGetAllocationPropertiesFromHandle aclrtIpcMemGetExportKey aclrtIpcMemSetImportPid aclrtIpcMemImportByKey
      aclrtIpcMemClose aclrtIpcMemSetAttr aclrtIpcMemImportPidInterServer aclrtMemPoolCreate aclrtMemPoolDestroy aclrtMemPoolMallocAsync aclrtMemPoolFreeAsync
      aclrtMemPoolTrimTo aclrtMemPoolSetAttr aclrtMemPoolGetAttr aclrtMemAllocManaged aclrtMemManagedAdvise aclrtMemManagedPrefetchAsync
      aclrtMemManagedPrefetchBatchAsync aclrtMemManagedGetAttr aclrtMemManagedGetAttrs aclrtDeviceCanAccessPeer aclrtDeviceEnablePeerAccess
      aclrtDeviceDisablePeerAccess aclrtDevicePeerAccessStatus aclrtGetMemUceInfo aclrtMemUceRepair`),
  },
  {
    title: "Kernels",
    calls:
      list(`aclrtBinaryLoadFromFile aclrtBinaryLoadFromData aclrtBinaryUnLoad aclrtBinaryGetFunction aclrtBinaryGetFunctionByEntry aclrtGetFunctionAddr
      aclrtGetFunctionName aclrtGetFunctionAttribute aclrtGetFunctionSize aclrtGetFunctionParamCount aclrtGetFunctionParamInfo aclrtKernelArgsInit
      aclrtKernelArgsInitByUserMem aclrtKernelArgsGetMemSize aclrtKernelArgsGetHandleMemSize aclrtKernelArgsAppend aclrtKernelArgsAppendPlaceHolder
      aclrtKernelArgsGetPlaceHolderBuffer aclrtKernelArgsParaUpdate aclrtKernelArgsFinalize aclrtLaunchKernel aclrtLaunchKernelV2
      aclrtLaunchKernelWithConfig aclrtLaunchKernelWithHostArgs aclrtLaunchKernelWithArgsArray aclrtCreateBinary aclrtBinaryLoad aclrtDestroyBinary
      aclrtRegisterCpuFunc aclrtBinarySetExceptionCallback aclrtBinaryGetGlobal`),
  },
  {
    title: "Graph capture and model instances",
    calls:
      list(`aclmdlRICaptureBegin aclmdlRICaptureEnd aclmdlRICaptureGetInfo aclmdlRICaptureThreadExchangeMode aclmdlRICaptureToModelRIBegin aclmdlRIExecute
      aclmdlRIExecuteAsync aclmdlRIDestroy aclmdlRIAbort aclmdlRISetName aclmdlRIGetName aclmdlRIGetId aclmdlRIDestroyRegisterCallback
      aclmdlRIDestroyUnregisterCallback aclmdlRICaptureTaskGrpBegin aclmdlRICaptureTaskGrpEnd aclmdlRICaptureTaskUpdateBegin aclmdlRICaptureTaskUpdateEnd
      aclmdlRIGetStreams aclmdlRIGetTasksByStream aclmdlRITaskGetType aclmdlRITaskGetParams aclmdlRITaskSetParams aclmdlRIUpdate aclmdlRITaskDisable
      aclmdlRITaskGetSeqId aclmdlRIKernelTaskGetAttribute aclmdlRICondHandleCreate aclmdlRICondHandleGetCondPtr aclmdlRIAddCondTask aclmdlRIBuildBegin
      aclmdlRIBindStream aclmdlRIEndTask aclmdlRIBuildEnd aclmdlRIUnbindStream aclmdlRIDebugPrint aclmdlRIDebugJsonPrint`),
  },
  {
    title: "Snapshots of the process",
    calls:
      list(`aclrtSnapShotProcessLock aclrtSnapShotProcessUnlock aclrtSnapShotProcessBackup aclrtSnapShotProcessRestore aclrtSnapShotProcessGetState
      aclrtSnapShotCallbackRegister aclrtSnapShotCallbackUnregister`),
  },
  {
    title: "Profiling and dump",
    calls:
      list(`aclprofInit aclprofFinalize aclprofCreateConfig aclprofDestroyConfig aclprofSetConfig aclprofStart aclprofStop aclprofCreateSubscribeConfig
      aclprofDestroySubscribeConfig aclprofModelSubscribe aclprofModelUnSubscribe aclprofGetOpDescSize aclprofGetOpNum aclprofGetOpType aclprofGetOpName
      aclprofGetOpStart aclprofGetOpEnd aclprofGetOpDuration aclprofGetModelId aclprofCreateStamp aclprofDestroyStamp aclprofSetStampTraceMessage aclprofMark
      aclprofMarkEx aclprofPush aclprofPop aclprofRangeStart aclprofRangeStop aclprofGetStepTimestamp aclprofCreateStepInfo aclprofDestroyStepInfo aclrtProfTrace
      acldumpRegCallback acldumpUnregCallback acldumpGetPath acldumpSaveExceptionInfo`),
  },
  {
    title: "Data channels",
    calls: list(`acltdtCreateChannel acltdtCreateChannelWithCapacity acltdtSendTensor acltdtReceiveTensor acltdtQueryChannelSize acltdtStopChannel
      acltdtCleanChannel acltdtDestroyChannel acltdtCreateDataset acltdtDestroyDataset acltdtCreateDataItem acltdtDestroyDataItem acltdtAddDataItem
      acltdtGetDataItem acltdtGetDatasetSize acltdtCreateQueue acltdtDestroyQueue acltdtEnqueue acltdtDequeue acltdtEnqueueData acltdtDequeueData
      acltdtBindQueueRoutes acltdtUnbindQueueRoutes acltdtQueryQueueRoutes acltdtAllocBuf acltdtFreeBuf acltdtGetBufData`),
  },
];

/** Calls that mean nothing on a device without such a part, and why. */
export const NOT_APPLICABLE: Readonly<Record<string, string>> = {
  aclrtIpcMemImportPidInterServer: "goes between servers; the emulated devices are of one process",
};
