import { type IncomingMessage, type RequestOptions, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { parseArgs } from 'node:util'
import { readSettings, type ServerConfig } from '../config/config.ts'
import { printableText } from '../text/printable.ts'
import { printArgumentProblem } from './usage-problem.ts'

/** Time limit for connecting, asking and reading together. */
const TIMEOUT_MS = 5000
/** Far more than `/readyz` responds with. */
const MAX_RESPONSE_BYTES = 64 * 1024

/** Settings that say where `/readyz` is. */
const NAMES = ['host', 'port', 'socket', 'adminHost', 'adminPort', 'tlsCertFiles', 'tlsListeners', 'tlsClientAuth'] as const
type HealthSettings = Pick<ServerConfig, (typeof NAMES)[number]>

/**
 * Asks the instance on this machine, whose settings are in the environment, whether it is ready. It is for health checks of containers, so it needs
 * no token, and prints one line.
 */
export async function health(args: string[]): Promise<number> {
  const { HEALTH_HELP } = await import('./help.ts')
  try {
    if (parseArgs({ args, options: { help: { type: 'boolean', short: 'h' } } }).values.help) {
      process.stdout.write(HEALTH_HELP)
      return 0
    }
  } catch (error) {
    return printArgumentProblem(error, 'health', HEALTH_HELP)
  }
  const { config, problems } = readSettings(NAMES, process.env)
  const answer = problems.length > 0 ? { isReady: false, text: problems.join('; ') } : await askReadiness(config)
  if (answer.isReady) process.stdout.write(`${answer.text}\n`)
  else process.stderr.write(`edge health: ${answer.text}\n`)
  return answer.isReady ? 0 : 1
}

interface HealthAnswer {
  readonly isReady: boolean
  readonly text: string
}

async function askReadiness(config: HealthSettings): Promise<HealthAnswer> {
  const place = placeOf(config)
  if (typeof place === 'string') return { isReady: false, text: place }
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const res = await send(place, timeout)
    const text = await readText(res)
    timeout.throwIfAborted() // what came until then looks like the whole response where its length is not given
    return readAnswer(place, res.statusCode!, text)
  } catch (error) {
    if (timeout.aborted) return { isReady: false, text: `${place.url} did not respond within ${TIMEOUT_MS / 1000} s` }
    const { code, message } = error as NodeJS.ErrnoException
    return {
      isReady: false,
      text: `${place.url} is unreachable: ${code === 'ECONNREFUSED' ? 'nothing listens there' : printableText(message)}`,
    }
  }
}

interface Place {
  readonly url: string
  readonly isTls: boolean
  readonly options: RequestOptions
}

/** Returns where these settings put `/readyz`, or a sentence if nothing can ask there. */
function placeOf(config: HealthSettings): Place | string {
  const { host, port, socket, adminHost, adminPort, tlsCertFiles, tlsListeners, tlsClientAuth } = config
  const [number, address, name] = adminPort === undefined ? [port, host, 'main' as const] : [adminPort, adminHost ?? host, 'admin' as const]
  if (number === 0)
    return `${adminPort === 0 ? 'EDGE_ADMIN_PORT' : 'EDGE_PORT'}: expected a port other than 0, which is a different one at each start`
  if (number === undefined) {
    if (socket === undefined) return 'EDGE_ADMIN_PORT: expected a port, because readiness cannot be asked for over gRPC here'
    return { url: `unix:${socket}`, isTls: false, options: { socketPath: socket } }
  }
  const isTls = tlsCertFiles.length > 0 && tlsListeners.includes(name)
  if (isTls && tlsClientAuth === 'require')
    return `EDGE_TLS_CLIENT_AUTH: this command has no certificate; expected EDGE_ADMIN_PORT to be set, and no admin in EDGE_TLS_LISTENERS`
  const reached = reachable(address)
  const shown = reached.includes(':') ? `[${reached}]` : reached
  return { url: `${isTls ? 'https' : 'http'}://${shown}:${number}`, isTls, options: { host: reached, port: number } }
}

/** Nobody can connect to the addresses that stand for all interfaces. */
function reachable(host: string | undefined): string {
  if (host === undefined || host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}

function send({ isTls, options }: Place, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = { ...options, path: '/readyz', agent: false as const, signal, headers: { Host: 'localhost', Connection: 'close' } }
    // The certificate is for the name that clients use, not for this address. Nothing secret is sent, and the answer comes from this machine.
    const req = isTls ? requestHttps({ ...asked, rejectUnauthorized: false }) : requestHttp(asked)
    req.on('error', reject)
    req.on('response', resolve)
    req.on('upgrade', (res, connection) => {
      connection.destroy()
      resolve(res)
    })
    req.end()
  })
}

async function readText(res: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of res) {
    bytes += (chunk as Buffer).length
    if (bytes > MAX_RESPONSE_BYTES) throw new Error(`the response has more than ${MAX_RESPONSE_BYTES / 1024} KiB`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString()
}

/** What `/readyz` gives as its reason. */
const REASONS: ReadonlyMap<unknown, string> = new Map([
  ['no_policy_loaded', 'no bundle is active yet'],
  ['starting', 'its port is not open yet'],
  ['no_keys_loaded', 'the issued keys have not arrived yet'],
  ['shutting_down', 'it is shutting down'],
])

function readAnswer({ url }: Place, status: number, text: string): HealthAnswer {
  const { status: state, reason, policy_version: version } = parse(text)
  if (status === 200 && state === 'ready' && typeof version === 'string')
    return { isReady: true, text: `ready, bundle version ${printableText(version)}` }
  if (state === 'not_ready' && typeof reason === 'string')
    return { isReady: false, text: `not ready: ${REASONS.get(reason) ?? printableText(reason)}` }
  return { isReady: false, text: `${url} does not respond as edge does: status ${status}` }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>
  } catch {
    return {}
  }
}
