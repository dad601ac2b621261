import { fieldValue } from '../../../http1/header-fields.ts'
import type { CallerVerdict } from '../../../request/caller.ts'
import type { FieldValue, RequestView } from '../../../request/view.ts'

/** A request of a log, as the engine may see it. Thousands of them wait to be put in order, so each consists of few objects. */
export interface LoggedRequest extends RequestView {
  readonly timeMs: number
  /** Names and values of header fields, in turn. */
  readonly fields: readonly string[]
  readonly body: string | undefined
  /** Who sent it; undefined if the log does not say. */
  readonly caller?: CallerVerdict | undefined
  /** Characters that it keeps in memory. */
  readonly size: number
}

interface RequestParts extends Pick<WholeRequest, 'timeMs' | 'method' | 'uri' | 'host' | 'peer' | 'fields' | 'body' | 'size'> {
  readonly caller?: CallerVerdict | undefined
  readonly contexts?: Readonly<Record<string, unknown>> | undefined
}

/** A request all of whose parts were read at once. */
export class WholeRequest implements LoggedRequest {
  readonly timeMs: number
  readonly method: string
  readonly uri: string
  /** Empty if the log names none. */
  readonly host: string
  /** The client's address. */
  readonly peer: string | undefined
  readonly fields: readonly string[]
  readonly body: string | undefined
  readonly caller: CallerVerdict | undefined
  readonly size: number
  /** Values that a gateway's configuration sent along, by name. */
  readonly #contexts: Readonly<Record<string, unknown>> | undefined

  constructor(parts: RequestParts) {
    this.timeMs = parts.timeMs
    this.method = parts.method
    this.uri = parts.uri
    this.host = parts.host
    this.peer = parts.peer
    this.fields = parts.fields
    this.body = parts.body
    this.caller = parts.caller
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

/** A position that could not be read, and why. */
export interface UnreadableEntry {
  readonly file: string
  /** Number of the line, `entry 3`, or END_OF_LOG. */
  readonly position: string
  readonly why: string
}

/** The position of what is missing if a log was not read to its end. */
export const END_OF_LOG = 'end'

/** Counts the lines and entries that cannot be read. Keeps the first few, and every log that was not read to its end. */
export class UnreadableLines {
  count = 0
  readonly shown: UnreadableEntry[] = []

  add(file: string, position: string, why: string): void {
    if (++this.count <= MAX_SHOWN || position === END_OF_LOG) this.shown.push({ file, position, why })
  }
}
