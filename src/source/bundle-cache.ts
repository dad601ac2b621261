import { createHash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { Logger } from 'pino'
import { replaceFile } from '../replace-file.ts'
import { MAX_BUNDLE_BYTES, type OfferedBundle } from './bundle-source.ts'

/** Counts attempts to write by their result. */
export interface CacheWriteCounter {
  series(result: 'written' | 'failed'): { count: number }
}

const MAGIC = 'edge-bundle-cache-1 '
// A signature is as long as a header of the source's answer can be, where nobody looks at it.
const MAX_HEAD_BYTES = 65536

/**
 * Keeps the last bundle that a source gave and that was good. One file: a line that says what it is, then the bytes as they came.
 * Signature and bytes in two files could be out of step after a crash, and then an instance could not start from them.
 */
export class BundleCache {
  readonly path: string
  readonly #logger: Logger
  readonly #writes: CacheWriteCounter
  #waiting: OfferedBundle | undefined
  #problem: string | undefined

  constructor(path: string, logger: Logger, writes: CacheWriteCounter) {
    this.path = path
    this.#logger = logger
    this.#writes = writes
    for (const result of ['written', 'failed'] as const) writes.series(result)
  }

  /** Undefined when there is none. Throws when it is damaged or cannot be read. */
  async read(): Promise<OfferedBundle | undefined> {
    try {
      const found = await stat(this.path)
      if (!found.isFile()) throw new Error('it is not a regular file') // a pipe would be waited on for ever
      if (found.size > MAX_HEAD_BYTES + MAX_BUNDLE_BYTES) throw new Error('it is too large for a cached bundle')
      return decode(await readFile(this.path))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  /** To be written with the next `save`. */
  keep(bundle: OfferedBundle): void {
    this.#waiting = bundle
  }

  /** Writes what is not written yet. A failure is told once for each change of its reason, and it is tried again next time. */
  async save(): Promise<void> {
    const bundle = this.#waiting
    if (bundle === undefined) return
    try {
      await replaceFile(this.path, (handle) => handle.writeFile(encode(bundle)))
      this.#waiting = undefined
      this.#writes.series('written').count++
      if (this.#problem !== undefined) this.#logger.info({ event: 'bundle_cached_again', path: this.path }, 'the bundle is cached again')
      this.#problem = undefined
    } catch (error) {
      this.#writes.series('failed').count++
      const { code, message } = error as NodeJS.ErrnoException
      const problem = code ?? message
      if (problem !== this.#problem) {
        const fields = { event: 'bundle_not_cached', path: this.path, reason: message }
        this.#logger.error(fields, 'the bundle could not be cached; a start without the source would be with the one from before')
      }
      this.#problem = problem
    }
  }
}

interface Head {
  readonly format: 'json' | 'yaml'
  readonly signature?: string
  readonly sha256: string
}

function encode({ bytes, format, signature }: OfferedBundle): Buffer {
  const head: Head = { format, ...(signature === undefined ? {} : { signature }), sha256: sha256(bytes) }
  return Buffer.concat([Buffer.from(`${MAGIC}${JSON.stringify(head)}\n`), bytes])
}

function decode(file: Buffer): OfferedBundle {
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
