import type { LookupFunction } from 'node:net'
import { WatchedFile } from '../../files/watched-file.ts'
import { getDocument } from '../../outbound/http-get.ts'
import { backoffMs, type Clock } from '../../time/clock.ts'
import type { PublishedKeys } from '../jwt/key-set.ts'
import type { KeySetNews } from './key-set-news.ts'
import { fileOf, type KeySource } from './key-source.ts'

/** Reads the text of a key set. */
type ReadKeySet = (text: string) => PublishedKeys | { readonly problem: string }

export interface FollowParts {
  readonly secretsDir: string | undefined
  readonly userAgent: string
  readonly clock: Clock
  readonly read: ReadKeySet
  /** Timeout of a whole fetch. */
  readonly fetchTimeoutMs?: number | undefined
  readonly lookup?: LookupFunction | undefined
}

/** What changed with a reading. */
export interface KeySetReading {
  /** Whether the set has other keys than before. */
  readonly hasNewKeys: boolean
  /** Whether there is a problem that was not there before, or none any more. */
  readonly hasNewProblem: boolean
}

const MAX_BYTES = 1024 * 1024
const FETCH_TIMEOUT_MS = 10_000
/** A set that was fetched is fetched again no later than this, so that a key that its issuer has withdrawn stops being accepted. */
const REFRESH_MS = 10 * 60_000
/** Instances that were started together must not keep fetching at the same moments. */
const JITTER = 0.1
const FIRST_RETRY_MS = 5000
const LONGEST_RETRY_MS = 60_000
/** Callers choose the `kid` of a token. However many unknown ones they send, the issuer is asked no more often than this for their sake. */
const ASK_INTERVAL_MS = 30_000
/** A file costs nobody else anything. */
const FILE_ASK_INTERVAL_MS = 1000

/** One key set at its URL or in its file: reads it, reads it again, and keeps the last good one. */
export class FollowedKeySet {
  readonly source: KeySource
  /** Entries that use it. */
  names: ReadonlySet<string> = new Set()
  readonly #parts: FollowParts
  readonly #onReading: (set: FollowedKeySet, reading: KeySetReading) => void
  readonly #file: WatchedFile | undefined
  readonly #stopping = new AbortController()
  #keys: PublishedKeys | undefined
  /** The bytes that the last good set was read from. */
  #bytes: Buffer | undefined
  #problem: string | undefined
  /** When the keys were last read, and since when that fails, on the wall clock. */
  #goodAtMs: number | undefined
  #failingSinceMs: number | undefined
  /** What listeners know. */
  #reported: { readonly identity: string; readonly problem: string | undefined } = { identity: '', problem: undefined }
  #readAtMs = Number.NEGATIVE_INFINITY
  #askableAtMs = Number.NEGATIVE_INFINITY
  #dueMs = Number.POSITIVE_INFINITY
  #failures = 0
  #reading: Promise<void> | undefined

  /** `onReading` is called after each reading, good or not. */
  constructor(source: KeySource, parts: FollowParts, onReading: (set: FollowedKeySet, reading: KeySetReading) => void) {
    this.source = source
    this.#parts = parts
    this.#onReading = onReading
    const path = fileOf(source, parts.secretsDir)
    if (path === undefined) return
    const look = (note: () => void): void => {
      note()
      // A look that the file takes by itself may have begun some time ago, and proves nothing about keys that were seen meanwhile.
      if (this.#reading === undefined) this.#report()
    }
    this.#file = new WatchedFile(path, MAX_BYTES, {
      onContent: (bytes) => look(() => this.#note(bytes)),
      onProblem: (error) => look(() => this.#noteFailure(error.message)),
    })
  }

  /** The last good set. */
  get keys(): PublishedKeys | undefined {
    return this.#keys
  }

  /** Why the last reading failed; undefined if it did not. */
  get problem(): string | undefined {
    return this.#problem
  }

  /** When the last good set was last read, on the wall clock; undefined if there is none. */
  get goodAtMs(): number | undefined {
    return this.#goodAtMs
  }

  /** When the first of the readings failed that have failed since the last good one, on the wall clock. */
  get failingSinceMs(): number | undefined {
    return this.#failingSinceMs
  }

  /** What workers must know. `withKeys`: for workers that may not have the keys. */
  news(withKeys: boolean): KeySetNews {
    const { source } = this
    const keys = withKeys ? this.#keys : undefined
    return { source, keys, readAtMs: this.#readAtMs, isFailing: this.#problem !== undefined, askableAtMs: this.#askableAtMs }
  }

  /** Resolves after the first reading. */
  start(): Promise<void> {
    return this.#read((file) => file.start())
  }

  /** Reads again for a key that is not in the set. Returns false if that was done too recently; a reading that is under way is enough. */
  ask(): boolean {
    if (this.#reading !== undefined) return true
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs < this.#askableAtMs) return false
    this.#askableAtMs = nowMs + (this.#file === undefined ? ASK_INTERVAL_MS : FILE_ASK_INTERVAL_MS)
    void this.#read((file) => file.reload())
    return true
  }

  /** Reads again for an operator. A reading that is under way may have begun before what the operator has changed, so another one follows it. */
  async readAgain(): Promise<void> {
    await this.#reading
    await this.#read((file) => file.reload())
  }

  /** Fetches again if it is time to. A file is watched instead. */
  refreshIfDue(): void {
    const isDue = this.#file === undefined && this.#parts.clock.nowMs() >= this.#dueMs
    if (isDue && this.#reading === undefined) void this.#read(async () => {})
  }

  stop(): void {
    this.#stopping.abort()
    this.#file?.stop()
  }

  /** Runs one reading at a time, and calls that come meanwhile share it. Never rejects. */
  #read(look: (file: WatchedFile) => Promise<void>): Promise<void> {
    this.#reading ??= this.#readNow(look)
    return this.#reading
  }

  async #readNow(look: (file: WatchedFile) => Promise<void>): Promise<void> {
    const beganAtMs = this.#parts.clock.nowMs()
    if (this.#file === undefined) await this.#fetch()
    else await look(this.#file)
    this.#reading = undefined
    if (this.#stopping.signal.aborted) return
    if (this.#problem === undefined) this.#readAtMs = beganAtMs
    this.#report()
  }

  async #fetch(): Promise<void> {
    const { userAgent, fetchTimeoutMs: timeoutMs = FETCH_TIMEOUT_MS, lookup } = this.#parts
    const { signal } = this.#stopping
    const request = { url: new URL(this.source), accept: 'application/jwk-set+json, application/json', maxBytes: MAX_BYTES }
    try {
      this.#note(await getDocument({ ...request, userAgent, timeoutMs, signal, lookup }))
    } catch (error) {
      this.#noteFailure((error as Error).message)
    }
  }

  #note(bytes: Buffer): void {
    const read = this.#keysIn(bytes)
    if ('problem' in read) return this.#noteFailure(read.problem)
    this.#keys = read
    this.#bytes = bytes
    this.#problem = undefined
    this.#goodAtMs = this.#parts.clock.wallMs()
    this.#failingSinceMs = undefined
    this.#failures = 0
    this.#dueMs = this.#parts.clock.nowMs() + REFRESH_MS * (1 - JITTER * Math.random())
  }

  /** Sets hardly ever change, and reading one anew may take half a second: a hundred keys of the slowest kind have to be checked. */
  #keysIn(bytes: Buffer): ReturnType<ReadKeySet> {
    if (this.#keys !== undefined && this.#bytes?.equals(bytes)) return this.#keys
    const text = textOf(bytes)
    return text === undefined ? { problem: 'it is not valid UTF-8' } : this.#parts.read(text)
  }

  #noteFailure(problem: string): void {
    this.#problem = problem
    this.#failingSinceMs ??= this.#parts.clock.wallMs()
    this.#failures++
    this.#dueMs = this.#parts.clock.nowMs() + backoffMs(FIRST_RETRY_MS, LONGEST_RETRY_MS, this.#failures)
  }

  #report(): void {
    if (this.#stopping.signal.aborted) return
    const before = this.#reported
    const keys = this.#keys
    const identity = keys === undefined ? '' : JSON.stringify([keys.version, keys.kids])
    this.#reported = { identity, problem: this.#problem }
    this.#onReading(this, { hasNewKeys: identity !== before.identity, hasNewProblem: this.#problem !== before.problem })
  }
}

/** Undefined if the bytes are not UTF-8. */
function textOf(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}
