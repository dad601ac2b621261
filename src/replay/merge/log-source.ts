import type { LogFile } from '../logs/log-file.ts'
import { type LogListener, LogText } from '../logs/log-text.ts'
import type { LoggedRequest } from '../logs/logged-request.ts'
import { END_OF_LINE, type UnreadableLines } from '../unreadable-lines.ts'
import { ReorderWindow } from './reorder-window.ts'

/** How many requests, and characters of them, are kept to put them in order. */
export interface WindowBounds {
  readonly requests: number
  readonly characters: number
}

/**
 * A megabyte of gzip may unpack to a gigabyte of line ends. How much of what a compressed log unpacks to may be no request: so many characters,
 * or so many times its size. Requests have no limit: a log in which all lines are alike compresses as well as that.
 */
const MAX_IDLE_CHARACTERS = 16 * 1024 ** 2
const MAX_IDLE_RATIO = 32
/** A short line that cannot be read is more work than its length says. */
const UNREADABLE_CHARACTERS = 64
const INFLATED = `it unpacks to more than ${MAX_IDLE_RATIO} times its size of text that is no request, so the rest is not read; if it is a log, unpack it first: zcat FILE | edge replay … -`

/** The requests of one log, in the order of their times as far as its window reaches. */
export class LogSource implements LogListener {
  readonly file: LogFile
  /** Its place among the logs. */
  readonly order: number
  readonly #bounds: WindowBounds
  readonly #unreadable: UnreadableLines
  readonly #text: LogText
  readonly #window = new ReorderWindow()
  /** Text that is no request. */
  #idleCharacters = 0
  #isEnded = false

  constructor(file: LogFile, order: number, bounds: WindowBounds, unreadable: UnreadableLines) {
    this.file = file
    this.order = order
    this.#bounds = bounds
    this.#unreadable = unreadable
    this.#text = new LogText(this)
  }

  /** Of the next request; Infinity where there is none. */
  get timeMs(): number {
    return this.#window.earliest?.timeMs ?? Number.POSITIVE_INFINITY
  }

  get next(): LoggedRequest | undefined {
    return this.#window.earliest
  }

  removeNext(): void {
    this.#window.removeEarliest()
  }

  /** Whether the window is full, or has all that is left. */
  get isReady(): boolean {
    const { length, size } = this.#window
    return this.#isEnded || length > this.#bounds.requests || (size > this.#bounds.characters && length > 0)
  }

  async fill(): Promise<void> {
    while (!this.isReady) {
      const piece = await this.file.next()
      if (piece === undefined) this.#end()
      else {
        this.#idleCharacters += piece.length
        this.#text.push(piece)
        if (this.#isInflated) this.#giveUp()
      }
    }
  }

  onRequest(request: LoggedRequest): void {
    this.#idleCharacters -= request.size
    this.#window.add(request)
  }

  onUnreadable(place: string, why: string): void {
    this.#idleCharacters += UNREADABLE_CHARACTERS
    this.#unreadable.add(this.file.name, place, why)
  }

  get #isInflated(): boolean {
    const { isCompressed, bytesRead } = this.file
    return isCompressed && this.#idleCharacters > Math.max(MAX_IDLE_CHARACTERS, MAX_IDLE_RATIO * bytesRead)
  }

  #giveUp(): void {
    this.file.damage = INFLATED
    this.#end()
  }

  #end(): void {
    this.#isEnded = true
    this.#text.end()
    if (this.file.damage !== undefined) this.onUnreadable(END_OF_LINE, this.file.damage)
  }
}
