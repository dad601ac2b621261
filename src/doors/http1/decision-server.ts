import type { Socket } from 'node:net'
import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import { type Handle, pathOf, type Route, Routes } from '../../http/routes.ts'
import type { HttpListener, ListenerOptions, ListenerTimeouts, PortOptions } from '../../listen/http-listener.ts'
import { newPlainListener } from '../../listen/plain-listener.ts'
import { WireFront } from '../../listen/wire-front.ts'
import { QUESTION_SHAPES, type QuestionShape } from '../question-shapes.ts'
import { DecisionEndpoint, respondFailed } from './decision-endpoint.ts'
import { WireConnection } from './wire-connection.ts'
import { DecisionWireContext } from './wire-context.ts'

export interface DecisionServerOptions {
  /** Serves the paths that are no question's. */
  readonly handleOther: Handle
  /** What else gateways ask here, besides questions. */
  readonly settle: Route
  /** False: `node:http` reads everything. What the fast wire responds is compared with that. */
  readonly hasFastWire?: boolean | undefined
}

/** The listener of `decision_service`. */
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

/** The fast wire: answers plain questions straight from the socket. */
function newDecisionWire(pipeline: DecisionPipeline, timeouts: ListenerTimeouts, handOver: (socket: Socket) => void): WireFront {
  const context = new DecisionWireContext(pipeline, timeouts.keepAliveMs, handOver)
  return new WireFront(timeouts, context, (socket, onGone) => new WireConnection(context, socket, onGone))
}

function endpoints(shape: QuestionShape, pipeline: DecisionPipeline): DecisionEndpoint[] {
  const paths = shape.uri === undefined ? [shape.path, `${shape.path}/`] : [shape.path]
  return paths.map((path) => new DecisionEndpoint(shape, path, pipeline))
}
