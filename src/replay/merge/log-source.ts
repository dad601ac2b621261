import type { LogFile } from '../logs/log-file.ts'
import { type LogListener, LogText } from '../logs/log-text.ts'
import type { LoggedRequest } from '../logs/logged-request.ts'
import type { UnreadableLines } from '../unreadable-lines.ts'
import { ReorderWindow } from './reorder-window.ts'

/** How many requests, and characters of them, are kept to put them in order. */
export interface WindowBounds {
  readonly requests: number
  readonly characters: number
}

/** The requests of one log, in the order of their times as far as its window reaches. */
export class LogSource implements LogListener {
  readonly file: LogFile
  /** Its place among the logs. */
  readonly order: number
  readonly #bounds: WindowBounds
  readonly #unreadable: UnreadableLines
  readonly #text: LogText
  readonly #window = new ReorderWindow()
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
      if (piece !== undefined) this.#text.push(piece)
      else this.#end()
    }
  }

  onRequest(request: LoggedRequest): void {
    this.#window.add(request)
  }

  onUnreadable(place: string, why: string): void {
    this.#unreadable.add(this.file.name, place, why)
  }

  #end(): void {
    this.#isEnded = true
    this.#text.end()
    if (this.file.damage !== undefined) this.onUnreadable('end', this.file.damage)
  }
}
