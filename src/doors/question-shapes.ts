import type { Door } from '../decide/door.ts'
import type { Reason } from '../engine/reasons.ts'

/** How one door's questions look: where they are sent, and where the request that they ask about is read from. */
export interface QuestionShape {
  readonly door: Door
  /** Of the question itself. */
  readonly path: string
  readonly methods: readonly string[]
  /** Of the request that is asked about. */
  readonly method: OriginalField
  readonly uri: OriginalField
  readonly host: OriginalField
}

/** A header field of the question, and why a question is refused that lacks it or has it twice. */
interface OriginalField {
  /** In lower case. */
  readonly name: string
  /** Undefined: it may be missing or empty. */
  readonly missing: Reason | undefined
  readonly repeated: Reason
}

const DECISION: QuestionShape = {
  door: 'decision',
  path: '/v1/decision',
  methods: ['POST'],
  method: { name: 'x-original-method', missing: 'missing_original_method', repeated: 'repeated_original_method' },
  uri: { name: 'x-original-uri', missing: 'missing_original_uri', repeated: 'repeated_original_uri' },
  host: { name: 'x-original-host', missing: undefined, repeated: 'repeated_original_host' },
}

/** Every question that can be asked over HTTP. Both wires read them by this table. */
export const QUESTION_SHAPES: readonly QuestionShape[] = [DECISION]
