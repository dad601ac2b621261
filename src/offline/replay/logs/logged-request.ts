import { fieldValue } from '../../../http1/header-fields.ts'
import type { FieldValue, RequestView } from '../../../request/view.ts'

/** A request of a log, as the engine may see it. Thousands of them wait to be put in order, so they are few objects each. */
export interface LoggedRequest extends RequestView {
  readonly timeMs: number
  /** Names and values in turn. */
  readonly fields: readonly string[]
  readonly body: string | undefined
  /** In characters, of what it keeps in memory. */
  readonly size: number
}

interface RequestParts extends Pick<WholeRequest, 'timeMs' | 'method' | 'uri' | 'host' | 'peer' | 'fields' | 'body' | 'size'> {
  readonly contexts?: Readonly<Record<string, unknown>> | undefined
}

/** One that was read as a whole. */
export class WholeRequest implements LoggedRequest {
  readonly timeMs: number
  readonly method: string
  readonly uri: string
  /** Empty where the log names none. */
  readonly host: string
  /** The client's address. */
  readonly peer: string | undefined
  readonly fields: readonly string[]
  readonly body: string | undefined
  readonly size: number
  /** What a gateway's configuration sent along, by name. */
  readonly #contexts: Readonly<Record<string, unknown>> | undefined

  constructor(parts: RequestParts) {
    this.timeMs = parts.timeMs
    this.method = parts.method
    this.uri = parts.uri
    this.host = parts.host
    this.peer = parts.peer
    this.fields = parts.fields
    this.body = parts.body
    this.size = parts.size
    this.#contexts = parts.contexts
  }

  header(name: string): FieldValue {
    return fieldValue(this.fields, name)
  }

  context(name: string): FieldValue {
    const value = this.#contexts !== undefined && Object.hasOwn(this.#contexts, name) ? this.#contexts[name] : undefined
    return typeof value === 'string' ? value : undefined
  }
}

const MAX_SHOWN = 5

/** Where something cannot be read, and why. */
export interface UnreadablePlace {
  readonly file: string
  /** A line's number, `entry 3`, or END. */
  readonly place: string
  readonly why: string
}

/** Where reading a log ended early. */
export const END_OF_LINE = 'end'

/** Counts the lines and entries that cannot be read, and keeps the first ones, and every log that was not read to its end. */
export class UnreadableLines {
  count = 0
  readonly shown: UnreadablePlace[] = []

  add(file: string, place: string, why: string): void {
    if (++this.count <= MAX_SHOWN || place === END_OF_LINE) this.shown.push({ file, place, why })
  }
}
