import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { PortOptions } from '../../listen/http-listener.ts'
import type { ListenerServer } from '../../listen/listener-server.ts'
import type { Series } from '../../telemetry/metrics/counter-family.ts'
import { ExtAuthzCheck } from './ext-authz-service.ts'
import { healthMethods } from './health-service.ts'
import { HealthWatches } from './health-watches.ts'
import { NodeGrpcServer } from './node-grpc-server.ts'
import { OwnGrpcServer } from './own-grpc-server.ts'
import { rateLimitMethods } from './rate-limit-service.ts'

export interface GrpcServerParts {
  readonly pipeline: DecisionPipeline
  /** As `/readyz` has it. */
  readonly isReady: () => boolean
  /** The layer that carries calls. */
  readonly wire: 'own' | 'node'
  /** Counts limits that callers of the rate limit service send along. */
  readonly ignoredLimits: Series
}

/** The listener of gRPC calls: every method of every service, and the layer that carries them. */
export function newGrpcServer(options: PortOptions, { pipeline, isReady, wire, ignoredLimits }: GrpcServerParts): ListenerServer {
  const watches = new HealthWatches(isReady)
  const all = [new ExtAuthzCheck(pipeline), ...rateLimitMethods(pipeline, ignoredLimits), ...healthMethods(isReady, watches)]
  const methods = new Map(all.map((method) => [method.path, method]))
  const Server = wire === 'own' ? OwnGrpcServer : NodeGrpcServer
  const server = new Server(methods, options, (error) => pipeline.logFailure(error))
  return {
    listen: (target) => server.listen(target),
    drain() {
      watches.look()
      server.drain()
    },
    close: (graceMs) => server.close(graceMs),
  }
}
