import type { Reason } from '../engine/reasons.ts'
import type { FieldValue, RequestView } from '../request/view.ts'
import type { Door } from './door.ts'

/** A question as a door has read it: may this request go on? */
export interface Question {
  readonly door: Door
  /** The request that is asked about, or why it cannot be told. A field that comes twice is never guessed. */
  original(): RequestView | Reason
  /** All cookies in one text: they may name a debug session. */
  cookie(): string | undefined
  /** Of the call, else of the request that is asked about: what its caller traces. */
  traceparent(): FieldValue
}
