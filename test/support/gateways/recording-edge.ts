import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceClientConstructor,
  type sendUnaryData,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { PROTO } from '../grpc/js-client.ts'
import { HttpBackend } from '../proxy/backend.ts'
import { thisTest } from '../service/running.ts'
import { type Gateway, isGrpc, type SeenQuestion } from './gateway.ts'

export interface RecordingEdge {
  readonly port: number
  readonly seen: readonly SeenQuestion[]
}

/** Stands in for edge: allows everything, and keeps the questions of the gateway. */
export function recordingEdge(gateway: Gateway): Promise<RecordingEdge> {
  if (isGrpc(gateway)) return recordingExtAuthz()
  return HttpBackend.start((_req, res) => void res.writeHead(200, { 'Content-Length': 0 }).end())
}

interface CheckRequest {
  readonly attributes: {
    readonly request: {
      readonly http: {
        readonly method: string
        readonly path: string
        readonly host: string
        readonly header_map?: { readonly headers: readonly { readonly key: string; readonly raw_value: Buffer }[] }
      }
    }
  }
}

async function recordingExtAuthz(): Promise<RecordingEdge> {
  const seen: SeenQuestion[] = []
  const server = new Server()
  server.addService(extAuthz().service, {
    Check({ request: { attributes } }: ServerUnaryCall<CheckRequest, object>, reply: sendUnaryData<object>) {
      const { method, path, host, header_map } = attributes.request.http
      const headers: Record<string, string> = {}
      for (const { key, raw_value } of header_map?.headers ?? []) headers[key] = `${headers[key] ? `${headers[key]}, ` : ''}${raw_value}`
      seen.push({ method, url: path, headers: { ...headers, host } })
      reply(null, { status: { code: 0 }, ok_response: {} })
    },
  })
  const port = await promisify(server.bindAsync.bind(server))('127.0.0.1:0', ServerCredentials.createInsecure())
  thisTest.onTestFinished(() => server.forceShutdown())
  return { port, seen }
}

function extAuthz(): ServiceClientConstructor {
  const definition = loadSync(join(PROTO, 'ext_authz.proto'), { keepCase: true })
  const names = loadPackageDefinition(definition) as unknown as {
    envoy: { service: { auth: { v3: { Authorization: ServiceClientConstructor } } } }
  }
  return names.envoy.service.auth.v3.Authorization
}
