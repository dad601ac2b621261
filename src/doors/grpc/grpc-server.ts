import type { DecisionPipeline } from '../../decide/decision-pipeline.ts'
import type { PortOptions } from '../../listen/http-listener.ts'
import type { ListenerServer } from '../../listen/listener-server.ts'
import type { Series } from '../../telemetry/metrics/counter-family.ts'
import { ExtAuthzCheck } from './ext-authz-service.ts'
import { healthMethods } from './health-service.ts'
import { HealthWatches } from './health-watches.ts'
import { OwnGrpcServer } from './own-grpc-server.ts'
import { rateLimitMethods } from './rate-limit-service.ts'

export interface GrpcServerParts {
  readonly pipeline: DecisionPipeline
  /** As `/readyz` has it. */
  readonly isReady: () => boolean
  /** Counts limits that callers of the rate limit service send along. */
  readonly ignoredLimits: Series
}

/** The listener of gRPC calls: every method of every service. */
export function newGrpcServer(options: PortOptions, { pipeline, isReady, ignoredLimits }: GrpcServerParts): ListenerServer {
  const watches = new HealthWatches(isReady)
  const all = [new ExtAuthzCheck(pipeline), ...rateLimitMethods(pipeline, ignoredLimits), ...healthMethods(isReady, watches)]
  const methods = new Map(all.map((method) => [method.path, method]))
  const server = new OwnGrpcServer(methods, options, (error) => pipeline.logFailure(error))
  return {
    listen: (target) => server.listen(target),
    drain() {
      watches.look()
      server.drain()
    },
    close: (graceMs) => server.close(graceMs),
  }
}
