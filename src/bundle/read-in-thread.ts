import { getHeapStatistics } from 'node:v8'
import { Worker as Thread } from 'node:worker_threads'
import type { BundleFormat } from '../policy/schema/bundle.ts'
import { readHere } from './bundle-intake.ts'
import type { BundleReading } from './bundle-reader.ts'
import { byteLengthOf, type SharedBundle } from './shared-bundle.ts'

export interface BundleThreadData {
  readonly bytes: Uint8Array
  readonly format: BundleFormat
  readonly active: SharedBundle | undefined
}

const ENTRY = new URL('./bundle-thread.js', import.meta.url)

/** Up to here a thread costs more than it saves. What a text stands for takes at most some hundred times its size. */
const SMALL_BYTES = 1024 ** 2

const MAX_HEAP_MIB = 1024

/**
 * Reads a large bundle on a thread of its own, whose memory is free again as soon as it ends: on the main thread the garbage of one
 * reload after another would stay until the heap is large enough for V8 to collect it. And one that takes too much memory ends that
 * thread, not the service.
 */
export async function readInThread(bytes: Uint8Array, format: BundleFormat, active?: SharedBundle): Promise<BundleReading> {
  // The active one is read once more, to compare them.
  if (Math.max(bytes.length, active === undefined ? 0 : byteLengthOf(active)) <= SMALL_BYTES) return readHere(bytes, format, active)
  const maxOldGenerationSizeMb = Math.min(MAX_HEAP_MIB, Math.floor(getHeapStatistics().heap_size_limit / 1024 ** 2))
  const workerData: BundleThreadData = { bytes, format, active }
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
    // Not before its memory is free: the workers need theirs now.
    thread.once('exit', (code) => (reading === undefined ? reject(new Error(`its reader ended with ${code}`)) : resolve(reading)))
  })
}
