import { Task, TaskOp } from "../abi/task";

export function runDma(task: usize): void {
  switch (<i32>load<u8>(task, Task.OP)) {
    case TaskOp.COPY:
      memory.copy(load<u32>(task, Task.P0), load<u32>(task, Task.P1), load<u32>(task, Task.P2));
      break;
    default:
      unreachable();
  }
}
