import { isSameHead } from '../../http/same-head.ts'
import type { ResponseHead } from './response-head.ts'

/** The response head that was parsed last. Backends often send the same again. */
export class RecentHead {
  /** Its blank line included. */
  #text = ''
  #head: ResponseHead | undefined

  keep(text: string, head: ResponseHead): void {
    this.#text = text
    this.#head = head
  }

  /** How many bytes it has. */
  get length(): number {
    return this.#text.length
  }

  /** Returns it if these bytes begin with it. */
  find(bytes: Buffer, from: number, end: number): ResponseHead | undefined {
    return this.#head !== undefined && isSameHead(this.#text, bytes, from, end) ? this.#head : undefined
  }
}
