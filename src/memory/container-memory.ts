import { totalmem } from 'node:os'

const MIB = 1024 ** 2

/** A thread with less cannot hold its own code and a small bundle. */
const MIN_HEAP_MIB = 32

/** Returns how much memory the container may use; undefined if there is no limit below the memory of the machine. */
export function containerMemoryBytes(limitBytes = process.constrainedMemory(), machineBytes = totalmem()): number | undefined {
  // Without a limit, Node returns 0, or what the kernel takes for infinite.
  return limitBytes > 0 && limitBytes < machineBytes ? limitBytes : undefined
}

/**
 * Returns how large the heap of each worker may become, in MiB; undefined if memory has no limit.
 *
 * V8 knows the limit of a container for the main thread alone. A worker would let garbage grow until the kernel kills the process. With a limit of its
 * own it collects in time, and if it still runs out of memory, that worker ends and is replaced, while the others go on. A quarter of the memory is
 * left to what is outside of heaps: buffers, code, stacks.
 */
export function workerHeapMib(storeBytes: number, workers: number, memoryBytes = containerMemoryBytes()): number | undefined {
  if (memoryBytes === undefined) return undefined
  const shareMib = (memoryBytes * 0.75 - storeBytes) / (workers + 1) / MIB
  return Math.max(MIN_HEAP_MIB, Math.floor(shareMib))
}
