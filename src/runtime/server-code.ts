import type { AdminEndpoints } from '../admin/admin-server.ts'
import type { AdminApi } from '../admin/api/admin-api.ts'
import type { ServerConfig } from '../config/config.ts'
import type { DecisionPipeline } from '../decide/decision-pipeline.ts'
import type { SettlementRecorder } from '../decide/settlement-recorder.ts'
import type { PortOptions } from '../listen/http-listener.ts'
import type { ListenerServer } from '../listen/listener-servers.ts'
import { respondNotFound } from '../listen/node-http/routes.ts'
import type { Reservations } from '../reservations/reservations.ts'
import { WorkSlices } from '../time/slices.ts'
import type { ServerOptions, ServerParts } from './server-parts.ts'

interface MainServerParts extends ServerParts {
  readonly config: ServerOptions
  readonly pipeline: DecisionPipeline
  /** Admin endpoints to serve here; undefined if operators have a listener of their own. */
  readonly admin: AdminEndpoints | undefined
  /** The reservations that gateways settle, and the recorder that counts the settlements. */
  readonly settling: readonly [Reservations, SettlementRecorder]
}

/** Creates the servers of the listeners for requests, which are the port and the unix socket, on the parts that they share. */
type MainServers = (parts: MainServerParts) => (options: PortOptions) => ListenerServer

type NewAdminApi = (config: ServerOptions, parts: ServerParts) => AdminApi

/** Code of the servers that the settings open. */
export interface ServerCode {
  readonly mainServers: MainServers
  /** Undefined if no admin token is set. */
  readonly newAdminApi: NewAdminApi | undefined
  /** Undefined if gRPC is not served. */
  readonly newGrpcServer: typeof import('../doors/grpc/grpc-server.ts').newGrpcServer | undefined
  /** Undefined if there are no certificates. */
  readonly WorkerTls: typeof import('../tls/worker-tls.ts').WorkerTls | undefined
}

/** Loads only the code that the settings need: the code of both modes would take a third of a worker's startup. */
export async function loadServerCode({ mode, grpcPort, grpcSocket, adminToken, tlsCertFiles }: ServerConfig): Promise<ServerCode> {
  const [mainServers, grpc, newAdminApi, tls] = await Promise.all([
    mode === 'reverse_proxy' ? loadProxy() : loadDecisionServer(),
    grpcPort === undefined && grpcSocket === undefined ? undefined : import('../doors/grpc/grpc-server.ts'),
    adminToken === undefined ? undefined : loadAdminApi(mode),
    tlsCertFiles.length === 0 ? undefined : import('../tls/worker-tls.ts'),
  ])
  return { mainServers, newGrpcServer: grpc?.newGrpcServer, newAdminApi, WorkerTls: tls?.WorkerTls }
}

/** Loads explanations only for the current mode. */
async function loadAdminApi(mode: ServerConfig['mode']): Promise<NewAdminApi> {
  const { newAdminApi } = await import('./admin-api-parts.ts')
  if (mode === 'reverse_proxy') {
    const [{ requestExplainer }, { basePathOf, FORWARDER }] = await Promise.all([
      import('../proxy/request-explainer.ts'),
      import('../proxy/incoming-request.ts'),
    ])
    return (config, parts) => {
      const { backendUrl, maxBodyBytes } = config
      const options = {
        peer: FORWARDER,
        basePath: basePathOf(backendUrl),
        hasLastResort: backendUrl !== undefined,
        maxBodyBytes,
        slices: new WorkSlices(),
        health: { health: parts.backendHealth, clock: parts.clock },
      }
      return newAdminApi(config, parts, requestExplainer(parts.engine, options))
    }
  }
  const { questionExplainer } = await import('../doors/http1/http-question.ts')
  return (config, parts) => newAdminApi(config, parts, questionExplainer(parts.engine, config.gatewayHints))
}

async function loadDecisionServer(): Promise<MainServers> {
  const [{ newDecisionServer }, { SettleEndpoint }] = await Promise.all([
    import('../doors/http1/decision-server.ts'),
    import('../doors/http1/settle-endpoint.ts'),
  ])
  return ({ config, pipeline, admin, settling }) => {
    const handleOther = admin === undefined ? respondNotFound : admin.handle.bind(admin)
    const settle = new SettleEndpoint(...settling)
    return (options) => newDecisionServer(pipeline, options, { handleOther, settle, hasFastWire: config.hasFastWire })
  }
}

async function loadProxy(): Promise<MainServers> {
  const [{ ProxyListeners }, { ProxyServer }] = await Promise.all([import('../proxy/proxy-listeners.ts'), import('./proxy-server.ts')])
  return ({ config, slots, admin, onPlanActive, onStreamCut, ...parts }) => {
    const listeners = new ProxyListeners(config, slots.backend, parts)
    onPlanActive(() => listeners.turnTo(parts.engine.plan))
    onStreamCut(listeners)
    const isOwn = (path: string): boolean => admin?.covers(path) ?? false
    return (options) =>
      new ProxyServer(
        listeners,
        listeners.newListener(options, isOwn, (req, res) => admin?.handle(req, res)),
      )
  }
}
