import { onTestFinished } from 'vitest'
import { GRPC_LIMITS, type GrpcLimits } from '../../../src/doors/grpc/grpc-limits.ts'
import type { GrpcMethod } from '../../../src/doors/grpc/grpc-method.ts'
import { OwnGrpcServer } from '../../../src/doors/grpc/grpc-server.ts'
import { ConnectionShares, ConnectionSlots, newSharesBuffer, newSlotsBuffer } from '../../../src/listen/connection-slots.ts'
import type { ListenerTimeouts, PortOptions } from '../../../src/listen/http-listener.ts'
import type { ListenerServer } from '../../../src/listen/listener-servers.ts'
import { NodeGrpcServer } from './node-grpc-server.ts'

/** The layer of the product, and the one that it is compared with. */
export const LAYERS = ['own', 'node'] as const
export type LayerName = (typeof LAYERS)[number]

interface LayerOptions {
  readonly methods: readonly GrpcMethod[]
  readonly timeouts?: Partial<ListenerTimeouts>
  readonly limits?: Partial<GrpcLimits>
  readonly slots?: number
}

export interface RunningLayer {
  readonly server: ListenerServer
  readonly port: number
  /** Connections that were refused for want of a slot. */
  readonly refused: () => number
  /** What the log would have. */
  readonly failures: readonly unknown[]
}

/** A layer with methods of the test's own, on a port of its own, for as long as the test runs. */
export async function servingCalls(layer: LayerName, { methods, timeouts, limits, slots = 1000 }: LayerOptions): Promise<RunningLayer> {
  let refused = 0
  const failures: unknown[] = []
  const options = grpcOptions(timeouts, slots, () => {
    refused++
  })
  const byPath = new Map(methods.map((method) => [method.path, method]))
  const Server = layer === 'own' ? OwnGrpcServer : NodeGrpcServer
  const server = new Server(byPath, options, (error) => void failures.push(error), { ...GRPC_LIMITS, ...limits })
  const { port } = (await server.listen({ port: 0, host: '127.0.0.1' }))!
  onTestFinished(() => server.close(0))
  return { server, port, refused: () => refused, failures }
}

/** What the listener of gRPC is told. */
export function grpcOptions(timeouts: Partial<ListenerTimeouts> = {}, slots = 1000, onFull: () => void = () => {}): PortOptions {
  return {
    timeouts: { keepAliveMs: 60_000, headersTimeoutMs: 60_000, requestTimeoutMs: 60_000, ...timeouts },
    peers: 'remote',
    shares: new ConnectionShares(newSharesBuffer(1), 1),
    slots: new ConnectionSlots(newSlotsBuffer(1), 1, 'grpc', slots),
    onFull,
    onAcceptError: () => {},
  }
}
