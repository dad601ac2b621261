import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { answerHeaders, type DecisionAnswer } from '../../decide/decision-answer.ts'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { HttpListener, ListenerOptions, ListenerTimeouts, PortOptions } from '../../listen/http-listener.ts'
import { type Handle, pathOf, type Route, Routes, respondEmpty } from '../../listen/node-http/routes.ts'
import { newPlainListener } from '../../listen/plain-listener.ts'
import { WireFront } from '../../listen/wire-front.ts'
import { QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'
import { DecisionWireContext, WireConnection } from './decision-connection.ts'
import { HttpQuestion } from './http-question.ts'

export interface DecisionServerOptions {
  /** Serves all paths that no question has. */
  readonly handleOther: Handle
  /** The endpoint where gateways settle reservations. */
  readonly settle: Route
  /** If false, `node:http` reads everything. Tests compare the responses of both wires. */
  readonly hasFastWire?: boolean | undefined
}

/** Creates the listener of `decision_service`. */
export function newDecisionServer(
  pipeline: DecisionPipeline,
  options: PortOptions,
  { handleOther, settle, hasFastWire = true }: DecisionServerOptions,
): HttpListener {
  const routes = new Routes([...QUESTION_SHAPES.flatMap((shape) => endpoints(shape, pipeline)), settle])
  const handle: Handle = (req, res) => {
    if (!routes.has(pathOf(req.url!))) return handleOther(req, res)
    routes.dispatch(req, res, (_res, error) => respondFailed(pipeline, res, error))
  }
  const newFront: ListenerOptions['newFront'] = (handOver) => newDecisionWire(pipeline, options.timeouts, handOver)
  return newPlainListener(options, handle, { newFront: hasFastWire ? newFront : undefined })
}

/** Creates the fast wire, which answers plain questions straight from the socket. */
function newDecisionWire(pipeline: DecisionPipeline, timeouts: ListenerTimeouts, handOver: (socket: Socket) => void): WireFront {
  const context = new DecisionWireContext(pipeline, timeouts.keepAliveMs, handOver)
  return new WireFront(timeouts, context, (socket, onGone) => new WireConnection(context, socket, onGone))
}

function endpoints(shape: QuestionShape, pipeline: DecisionPipeline): DecisionEndpoint[] {
  const paths = shape.uri === undefined ? [shape.path, `${shape.path}/`] : [shape.path]
  return paths.map((path) => new DecisionEndpoint(shape, path, pipeline))
}

/** Answers questions of one shape that `node:http` has read. Their bodies are not read, and responses have none. */
class DecisionEndpoint implements Route {
  readonly path: string
  readonly methods: readonly string[] | undefined
  readonly #shape: QuestionShape
  readonly #pipeline: DecisionPipeline

  /** `path` is the shape's own, or, with a slash at its end, everything below it. */
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

/** Responds to a failure that came after the question had been decided. */
function respondFailed(pipeline: DecisionPipeline, res: ServerResponse, error: unknown): void {
  if (!res.headersSent) return respond(res, pipeline.failDecided(error))
  pipeline.logFailure(error)
  res.destroy()
}

function respond(res: ServerResponse, answer: DecisionAnswer): void {
  respondEmpty(res, answer.status, answerHeaders(answer))
}
