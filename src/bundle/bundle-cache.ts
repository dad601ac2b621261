import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { DISK_TIMEOUT_MS, DiskTimeout, replaceFile, withDiskTimeout } from '../files/whole-file.ts'
import { isSameBundle, MAX_BUNDLE_BYTES, type OfferedBundle } from './bundle-source.ts'

/** Counts attempts to write by their result. */
export interface CacheWriteCounter {
  series(result: 'written' | 'failed'): { count: number }
}

/** Keeps the last good bundle of a source in a file of this process alone. A disk that hangs blocks nothing else. */
export class BundleCache {
  readonly path: string
  readonly #logger: Logger
  readonly #writes: CacheWriteCounter
  readonly #timeoutMs: number
  /** What the file should contain. */
  #bundle: OfferedBundle | undefined
  #isDue = false
  /** The file as it was when it was last known to be whole. */
  #seen = ''
  /** One at a time: each that hangs holds one of the few threads that also look up names of hosts. */
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

  /** Whether something waits for the disk, possibly for ever. */
  get isSlow(): boolean {
    return this.#late.size > 0
  }

  /** Undefined when there is none. Throws when it is damaged, cannot be read, or the disk does not respond. */
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

  /** To be written with the next `save`, unless the file has it. */
  keep(bundle: OfferedBundle): void {
    const held = this.#bundle
    if (held !== undefined) {
      // A source that omits the signature does not remove the one from before.
      const signature = bundle.signature ?? held.signature
      if (isSameBundle({ ...bundle, signature }, held)) return
    }
    this.#bundle = bundle
    this.#isDue = true
  }

  /** Starts to write the bundle if the file lacks it. A failure is logged once for each change of its reason; the next call tries again. */
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
    if (!this.#isDue && (await this.#isLost())) this.#isDue = true // not `||=`: another may have become due meanwhile
    try {
      // Another bundle may come while one is written.
      while (this.#isDue) await this.#write(this.#bundle!)
    } catch (error) {
      this.#isDue = true
      this.#failed(error as Error)
    }
  }

  /** Whether it was removed or damaged. A whole one that somebody else put there stays. */
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
    // A fixed name, so that processes that are killed do not leave one file each.
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
  if (!found.isFile()) throw new Error('it is not a regular file') // a pipe would be waited on for ever
  if (size > MAX_CACHED_BYTES) throw new Error('it is too large for a cached bundle')
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`
}

const MAGIC = 'edge-bundle-cache-1 '
// A signature can be as long as a header of the source's response, since it is not checked without keys.
const MAX_HEAD_BYTES = 65536

export const MAX_CACHED_BYTES = MAX_HEAD_BYTES + MAX_BUNDLE_BYTES

interface Head {
  readonly format: 'json' | 'yaml'
  readonly signature?: string
  readonly sha256: string
}

/**
 * One file: a line that says what it is, then the bytes as they came. Signature and bytes in two files could be out of step after
 * a crash, and then an instance could not start from them.
 */
export function encodeCached({ bytes, format, signature }: OfferedBundle): Buffer {
  const head: Head = { format, ...(signature === undefined ? {} : { signature }), sha256: sha256(bytes) }
  return Buffer.concat([Buffer.from(`${MAGIC}${JSON.stringify(head)}\n`), bytes])
}

/** Throws when it is damaged. */
export function decodeCached(file: Buffer): OfferedBundle {
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
