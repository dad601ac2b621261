import { DEFAULT_WINDOW, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, MAX_WINDOW, NO_ERROR, PROTOCOL_ERROR } from './frame-reader.ts'
import { MAX_TABLE_BYTES } from './hpack-table.ts'

/** Identifiers of settings (RFC 9113 6.5.2). */
const HEADER_TABLE_SIZE = 1
const ENABLE_PUSH = 2
export const MAX_CONCURRENT_STREAMS = 3
export const INITIAL_WINDOW_SIZE = 4
const MAX_FRAME_SIZE = 5
export const MAX_HEADER_LIST_SIZE = 6

const SETTING_BYTES = 6
const MIN_MAX_FRAME_SIZE = 2 ** 14
const MAX_MAX_FRAME_SIZE = 2 ** 24 - 1

/** The client's settings, as far as they matter here. */
export class PeerSettings {
  /** Initial send window of each stream. */
  initialWindow = DEFAULT_WINDOW
  /** The client has announced a smaller HPACK table than the default, which our next header block must acknowledge (RFC 7541 4.2). */
  hasSmallTable = false

  /** Returns the error that ends the connection, or NO_ERROR. */
  read(bytes: Buffer, from: number, to: number): number {
    if ((to - from) % SETTING_BYTES !== 0) return FRAME_SIZE_ERROR
    for (let at = from; at < to; at += SETTING_BYTES) {
      const error = this.#apply(bytes.readUInt16BE(at), bytes.readUInt32BE(at + 2))
      if (error !== NO_ERROR) return error
    }
    return NO_ERROR
  }

  #apply(id: number, value: number): number {
    switch (id) {
      case HEADER_TABLE_SIZE:
        if (value < MAX_TABLE_BYTES) this.hasSmallTable = true
        return NO_ERROR
      case ENABLE_PUSH:
        return value > 1 ? PROTOCOL_ERROR : NO_ERROR
      case INITIAL_WINDOW_SIZE:
        if (value > MAX_WINDOW) return FLOW_CONTROL_ERROR
        this.initialWindow = value
        return NO_ERROR
      case MAX_FRAME_SIZE:
        return value < MIN_MAX_FRAME_SIZE || value > MAX_MAX_FRAME_SIZE ? PROTOCOL_ERROR : NO_ERROR
      default:
        return NO_ERROR
    }
  }
}

/** Budgets of one connection for frames that cost us work without carrying a call. */
export interface FrameBudgets {
  /** Frames that carry no call. */
  readonly controls: FrameBudget
  /** Calls that the client cancels, or makes us reset, while they are under way. */
  readonly resets: FrameBudget
}

/** A token bucket that bounds how often a client may do something. */
export class FrameBudget {
  readonly #burst: number
  readonly #perSecond: number
  #left: number
  #atMs: number

  constructor(burst: number, perSecond: number, nowMs: number) {
    this.#burst = burst
    this.#perSecond = perSecond
    this.#left = burst
    this.#atMs = nowMs
  }

  /** Returns false if fewer than `count` are left. */
  take(nowMs: number, count = 1): boolean {
    if (this.#left < count) {
      this.add(((nowMs - this.#atMs) / 1000) * this.#perSecond)
      this.#atMs = nowMs
      if (this.#left < count) return false
    }
    this.#left -= count
    return true
  }

  add(count: number): void {
    this.#left = Math.min(this.#burst, this.#left + count)
  }
}
