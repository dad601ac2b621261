import type { BodyFacts } from '../engine/question.ts'
import type { RequestView } from '../request/view.ts'

/** Is told of each request that was allowed or rejected, with what is known of its body, before the view changes. Must not throw. */
export type NoteDecided = (view: RequestView, body: BodyFacts) => void
