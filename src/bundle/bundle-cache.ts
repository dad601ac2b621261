import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { DISK_TIMEOUT_MS, DiskTimeout, replaceFile, withDiskTimeout } from '../files/whole-file.ts'
import { isSameBundle, MAX_BUNDLE_BYTES, type OfferedBundle } from './bundle-source.ts'

/** Counts attempts to write by their result. */
export interface CacheWriteCounter {
  series(result: 'written' | 'failed'): { count: number }
}

/** Keeps the last good bundle of a source in a file that only this process uses. A disk that hangs blocks nothing else. */
export class BundleCache {
  readonly path: string
  readonly #logger: Logger
  readonly #writes: CacheWriteCounter
  readonly #timeoutMs: number
  /** The bundle that the file should contain. */
  #bundle: OfferedBundle | undefined
  #isDue = false
  /** Fingerprint of the file when it was last known to be intact. */
  #seen = ''
  /** Only one write runs at a time: a write that hangs occupies one of the few threads that also resolve host names. */
  #working: Promise<void> | undefined
  readonly #late = new Set<Promise<unknown>>()
  #problem: string | undefined

  constructor(path: string, logger: Logger, writes: CacheWriteCounter, timeoutMs = DISK_TIMEOUT_MS) {
    this.path = path
    this.#logger = logger
    this.#writes = writes
    this.#timeoutMs = timeoutMs
    for (const result of ['written', 'failed'] as const) writes.series(result)
  }

  /** Whether a disk operation has exceeded its timeout and may never end. */
  get isSlow(): boolean {
    return this.#late.size > 0
  }

  /** Returns undefined if there is no file. Throws if it is damaged, cannot be read, or the disk does not respond. */
  async read(): Promise<OfferedBundle | undefined> {
    const reading = readWhole(this.path)
    try {
      const { bundle, fingerprint } = await withDiskTimeout(reading, this.#timeoutMs)
      this.#bundle = bundle
      this.#seen = fingerprint
      return bundle
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      if (error instanceof DiskTimeout) this.#lateUntil(reading)
      throw error
    }
  }

  /** Marks a bundle to be written by the next `save`, unless the file already has it. */
  keep(bundle: OfferedBundle): void {
    const held = this.#bundle
    if (held !== undefined) {
      // If the source omits the signature of the same bundle, the cached signature stays.
      const signature = bundle.signature ?? held.signature
      if (isSameBundle({ ...bundle, signature }, held)) return
    }
    this.#bundle = bundle
    this.#isDue = true
  }

  /** Starts to write the bundle if the file lacks it. A failure is logged once for each change of its reason, and the next call tries again. */
  save(): void {
    if (this.#bundle === undefined || this.#working !== undefined) return
    const timer = setTimeout(() => {
      this.#lateUntil(this.#working!)
      this.#failed(new DiskTimeout(this.#timeoutMs))
    }, this.#timeoutMs).unref()
    this.#working = this.#work().finally(() => {
      clearTimeout(timer)
      this.#working = undefined
    })
  }

  /** Waits for a write in progress. */
  async close(): Promise<void> {
    const working = this.#working
    if (working !== undefined) await withDiskTimeout(working, this.#timeoutMs).catch(() => this.#lateUntil(working))
  }

  #lateUntil(work: Promise<unknown>): void {
    this.#late.add(work)
    const done = (): void => void this.#late.delete(work)
    work.then(done, done)
  }

  async #work(): Promise<void> {
    if (!this.#isDue && (await this.#isLost())) this.#isDue = true // `||=` could overwrite what `keep` sets in the meantime
    try {
      // Another bundle may arrive while one is written.
      while (this.#isDue) await this.#write(this.#bundle!)
    } catch (error) {
      this.#isDue = true
      this.#failed(error as Error)
    }
  }

  /** Returns whether the file was removed or damaged. An intact file that somebody else put there stays. */
  async #isLost(): Promise<boolean> {
    try {
      if ((await fingerprintOf(this.path)) !== this.#seen) this.#seen = (await readWhole(this.path)).fingerprint
      return false
    } catch {
      return true
    }
  }

  async #write(bundle: OfferedBundle): Promise<void> {
    this.#isDue = false
    // The name is fixed, so that killed processes do not leave one file each.
    await replaceFile(this.path, (handle) => handle.writeFile(encodeCached(bundle)), { besidePath: `${this.path}.new` })
    this.#seen = await fingerprintOf(this.path)
    this.#writes.series('written').count++
    if (this.#problem !== undefined) this.#logger.info({ event: 'bundle_cached_again', path: this.path }, 'the bundle is cached again')
    this.#problem = undefined
  }

  #failed({ code, message: reason }: NodeJS.ErrnoException): void {
    this.#writes.series('failed').count++
    const problem = code ?? reason
    if (problem !== this.#problem) {
      const fields = { event: 'bundle_not_cached', path: this.path, reason }
      this.#logger.error(
        fields,
        'the bundle could not be cached; if the source is unreachable at the next startup, the previous cache is used, if there is one',
      )
    }
    this.#problem = problem
  }
}

async function readWhole(path: string): Promise<{ bundle: OfferedBundle; fingerprint: string }> {
  const fingerprint = await fingerprintOf(path)
  return { bundle: decodeCached(await readFile(path)), fingerprint }
}

async function fingerprintOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true })
  const { dev, ino, size, mtimeNs, ctimeNs } = found
  if (!found.isFile()) throw new Error('it is not a regular file') // reading a pipe could wait for ever
  if (size > MAX_CACHED_BYTES) throw new Error('it is too large for a cached bundle')
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
}

const MAGIC = 'edge-bundle-cache-1 '
// Without keys, a signature is not checked, so it can be as long as a header field of the source's response.
const MAX_HEAD_BYTES = 65536

const MAX_CACHED_BYTES = MAX_HEAD_BYTES + MAX_BUNDLE_BYTES

interface Head {
  readonly format: 'json' | 'yaml'
  readonly signature?: string
  readonly sha256: string
}

/**
 * Writes one file: a line that describes the bundle, then its bytes as received. With the signature in a second file, a crash could leave the two out
 * of step, and an instance could not start from them.
 */
function encodeCached({ bytes, format, signature }: OfferedBundle): Buffer {
  const head: Head = { format, ...(signature === undefined ? {} : { signature }), sha256: sha256(bytes) }
  return Buffer.concat([Buffer.from(`${MAGIC}${JSON.stringify(head)}\n`), bytes])
}

/** Throws if the file is damaged. */
function decodeCached(file: Buffer): OfferedBundle {
  const end = file.subarray(0, MAX_HEAD_BYTES).indexOf('\n')
  const line = file.toString('utf8', 0, Math.max(end, 0))
  const head = line.startsWith(MAGIC) ? readHead(line.slice(MAGIC.length)) : undefined
  if (head === undefined) throw new Error('it is damaged, or not a cached bundle')
  const bytes = file.subarray(end + 1)
  if (sha256(bytes) !== head.sha256) throw new Error('it is damaged: its checksum is wrong')
  return { bytes, format: head.format === 'yaml' ? 'yaml' : 'json', signature: head.signature }
}

function readHead(text: string): Head | undefined {
  try {
    const head = JSON.parse(text) as Head | null
    return ['string', 'undefined'].includes(typeof head?.signature) ? (head ?? undefined) : undefined
  } catch {
    return undefined
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
