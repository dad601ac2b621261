import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { PortOptions } from '../../listen/http-listener.ts'
import type { ListenerServer } from '../../listen/listener-server.ts'
import { healthMethods } from './health-service.ts'
import { NodeGrpcServer } from './node-grpc-server.ts'
import { OwnGrpcServer } from './own-grpc-server.ts'

export interface GrpcServerParts {
  readonly pipeline: DecisionPipeline
  /** As `/readyz` has it. */
  readonly isReady: () => boolean
  /** The layer that carries calls. */
  readonly wire: 'own' | 'node'
}

/** The listener of gRPC calls: every method of every service, and the layer that carries them. */
export function newGrpcServer(options: PortOptions, { isReady, wire }: GrpcServerParts): ListenerServer {
  const methods = new Map([...healthMethods(isReady)].map((method) => [method.path, method]))
  return wire === 'own' ? new OwnGrpcServer(methods, options) : new NodeGrpcServer(methods, options)
}
