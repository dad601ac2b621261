import { fieldValue } from '../../http/raw-headers.ts'
import type { FieldValue, RequestView } from '../../request/view.ts'

/** A request of a log, as the engine may see it. */
export class LoggedRequest implements RequestView {
  readonly timeMs: number
  readonly method: string
  readonly uri: string
  /** Empty where the log names none. */
  readonly host: string
  /** The client's address. */
  readonly peer: string | undefined
  /** Names and values in turn. */
  readonly fields: readonly string[]
  readonly body: string | undefined
  /** The size of its text in the log. */
  readonly size: number

  constructor(
    timeMs: number,
    method: string,
    uri: string,
    host: string,
    peer: string | undefined,
    fields: readonly string[],
    body: string | undefined,
    size: number,
  ) {
    this.timeMs = timeMs
    this.method = method
    this.uri = uri
    this.host = host
    this.peer = peer
    this.fields = fields
    this.body = body
    this.size = size
  }

  header(name: string): FieldValue {
    return fieldValue(this.fields, name)
  }
}
