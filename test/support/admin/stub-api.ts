import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, vi } from 'vitest'
import type { Environment } from '../service/running.ts'
import { ADMIN_TOKEN } from './admin-client.ts'

export interface StubRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

/** A stub of the admin API for each test of the file, and the environment of commands that are to ask it. */
export function useStubApi(): { api: () => StubApi; environment: (env: Environment) => void } {
  let api: StubApi
  const environment = (env: Environment): void => {
    const names = ['EDGE_ADMIN_URL', 'EDGE_ADMIN_PORT', 'EDGE_ADMIN_HOST', 'EDGE_HOST', 'EDGE_ADMIN_TOKEN', 'EDGE_ACTOR', 'USER']
    for (const name of names) vi.stubEnv(name, env[name])
  }
  beforeEach(async () => {
    api = await StubApi.start()
    environment({ EDGE_ADMIN_URL: api.url, EDGE_ADMIN_TOKEN: ADMIN_TOKEN, USER: 'ada' })
  })
  afterEach(() => {
    vi.unstubAllEnvs()
    api.stop()
  })
  return { api: () => api, environment }
}

/** Responds as it is told, in place of an admin API, and keeps what it was asked. */
export class StubApi {
  readonly requests: StubRequest[] = []
  /** Whether it identifies itself as an admin API to those who ask without a token. */
  isIdentified = true
  /** What is responded next. */
  respond: (res: ServerResponse) => void = (res) => res.end('{}')
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(): Promise<StubApi> {
    const server = createServer()
    const stub = new StubApi(server)
    server.on('request', async (req: IncomingMessage, res: ServerResponse) => {
      // Commands ask without the token first.
      if (stub.isIdentified && req.headers.authorization === undefined) {
        res.writeHead(401, { 'X-Edge-Admin': 'v1' }).end()
        return
      }
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      const text = Buffer.concat(chunks).toString()
      stub.requests.push({
        method: req.method!,
        url: req.url!,
        headers: req.headers,
        body: text === '' ? undefined : JSON.parse(text),
      })
      stub.respond(res)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return stub
  }

  stop(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Responds with this status and JSON from now on. */
  says(json: unknown, status = 200): void {
    this.respond = (res) => {
      res.writeHead(status, { 'Content-Type': 'application/json' })
      res.end(JSON.stringify(json))
    }
  }
}
