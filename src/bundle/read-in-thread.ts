import { getHeapStatistics } from 'node:v8'
import { Worker as Thread } from 'node:worker_threads'
import { containerMemoryBytes } from '../memory/container-memory.ts'
import { readHere } from './bundle-intake.ts'
import type { BundleReading, ReadBundle } from './bundle-reader.ts'
import { byteLengthOf } from './shared-bundle.ts'

/** What the thread hands to `readBundle`. */
export type BundleThreadData = Parameters<ReadBundle>

const ENTRY = new URL('./bundle-thread.js', import.meta.url)

/** Up to this size a thread costs more than it saves: parsed text takes at most about a hundred times its size in memory. */
const SMALL_BYTES = 1024 ** 2

const MAX_HEAP_MIB = 1024

/**
 * Reads a large bundle on a thread of its own, whose memory is freed as soon as it ends. On the main thread, the garbage of successive reloads would
 * stay until the heap is large enough for V8 to collect it. A bundle that takes too much memory ends that thread, not the service.
 */
export const readInThread: ReadBundle = async (...given) => {
  const [bytes, , active] = given
  // The active bundle is deserialised for the comparison, so its size matters too.
  if (Math.max(bytes.length, active === undefined ? 0 : byteLengthOf(active)) <= SMALL_BYTES) return readHere(...given)
  // Beside what the service itself holds, a container has at most half of its memory to spare for this moment.
  const limitBytes = Math.min(getHeapStatistics().heap_size_limit, (containerMemoryBytes() ?? Number.POSITIVE_INFINITY) / 2)
  const maxOldGenerationSizeMb = Math.min(MAX_HEAP_MIB, Math.floor(limitBytes / 1024 ** 2))
  const workerData: BundleThreadData = given
  const thread = new Thread(ENTRY, { workerData, name: 'bundle', resourceLimits: { maxOldGenerationSizeMb } })
  return new Promise((resolve, reject) => {
    let reading: BundleReading | undefined
    thread.once('message', (message: BundleReading) => {
      reading = message
    })
    thread.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return reject(error)
      const message = `reading it takes more than ${maxOldGenerationSizeMb} MiB of memory`
      resolve({ ok: false, problems: [{ path: '', message }], warnings: [] })
    })
    // The result is returned only after the thread has freed its memory, because the workers need theirs now.
    thread.once('exit', (code) => (reading === undefined ? reject(new Error(`its reader ended with ${code}`)) : resolve(reading)))
  })
}
