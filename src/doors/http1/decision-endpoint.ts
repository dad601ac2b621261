import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { respondEmpty } from '../../http/respond.ts'
import type { Route } from '../../http/routes.ts'
import type { QuestionShape } from '../question-shapes.ts'
import { HttpQuestion } from './http-question.ts'

/** Questions of one shape that `node:http` has read. Their bodies are not read, and responses have none. */
export class DecisionEndpoint implements Route {
  readonly path: string
  readonly methods: readonly string[] | undefined
  readonly #shape: QuestionShape
  readonly #pipeline: DecisionPipeline

  /** `path` is the shape's, or all that is below it. */
  constructor(shape: QuestionShape, path: string, pipeline: DecisionPipeline) {
    this.path = path
    this.methods = shape.methods
    this.#shape = shape
    this.#pipeline = pipeline
  }

  handle(req: IncomingMessage, res: ServerResponse): void | Promise<void> {
    const answer = this.#pipeline.decide(new HttpQuestion(this.#shape, req))
    if (answer instanceof Promise) return answer.then((later) => respond(res, later))
    respond(res, answer)
  }
}

/** Something broke when the question was decided already. */
export function respondFailed(pipeline: DecisionPipeline, res: ServerResponse, error: unknown): void {
  if (!res.headersSent) return respond(res, pipeline.failDecided(error))
  pipeline.logFailure(error)
  res.destroy()
}

function respond(res: ServerResponse, answer: DecisionAnswer): void {
  respondEmpty(res, answer.status, answerHeaders(answer))
}
