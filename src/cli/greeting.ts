import type { ServerConfig } from '../config/config.ts'
import { VERSION } from '../files/package-files.ts'
import {
  isUnixSocket,
  type ListenAddress,
  type ListenerName,
  listener,
  openListeners,
  type PortAddress,
  portOrPath,
} from '../listen/listeners.ts'
import { shownUrl } from '../outbound/allowed-hosts.ts'
import type { ExampleRequest } from '../policy/example-request.ts'
import type { Service } from '../runtime/service.ts'
import { describeRedisAddress } from '../store/redis/link/redis-address.ts'

/** Returns what `edge serve` prints when it is ready: where it listens, what it decides by, and how to try it. */
export function greeting(config: ServerConfig, service: Service): string {
  const lines = openListeners(config).map((name) => `  ${listener(name).label.padEnd(7)} ${describePlace(name, config, service)}\n`)
  return `edge ${VERSION}, ${config.mode}
${lines.join('')}${describeBackend(config)}${describeRedis(config)}  bundle  ${describeBundle(config, service)}
${describeTrial(config, service)}`
}

function describePlace(name: ListenerName, config: ServerConfig, { addresses }: Service): string {
  const asked = listener(name).address(config)!
  const isEverywhere = !isUnixSocket(asked) && asked.host === undefined
  return `${urlOf(name, config, addresses.get(name)!)}${isEverywhere ? ' (all interfaces)' : ''}`
}

/** Writes the host as the settings do, and a unix socket as gRPC clients and many others do. */
function urlOf(name: ListenerName, config: ServerConfig, address: ListenAddress): string {
  if (isUnixSocket(address)) return `unix:${address.path}`
  const { host = 'localhost' } = listener(name).address(config) as PortAddress
  const scheme = config.tlsCertFiles.length > 0 && (config.tlsListeners as readonly ListenerName[]).includes(name) ? 'https' : 'http'
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${address.port}`
}

function describeRedis({ redis, redisMode, redisFailureMode }: ServerConfig): string {
  if (redis === undefined) return ''
  return `  redis   ${describeRedisAddress(redis)}, ${redisMode}; while unreachable: ${redisFailureMode}\n`
}

function describeBackend({ mode, backendUrl }: ServerConfig): string {
  if (mode !== 'reverse_proxy') return ''
  return `  backend ${backendUrl === undefined ? 'as the routes of the bundle say' : String(backendUrl).replace(/\/$/, '')}\n`
}

function describeBundle({ configFile, configUrl, configCacheFile }: ServerConfig, service: Service): string {
  const bundle = service.bundle()
  const place = configUrl === undefined ? configFile : shownUrl(configUrl)
  const status = service.source()
  if (place === undefined || status === undefined) {
    return 'none: set EDGE_CONFIG_FILE or EDGE_CONFIG_URL; until then every request gets 503'
  }
  if (bundle === undefined) return `none yet; every request gets 503 until there is one\n          ${place}: ${status.problem}`
  if (!status.isCached) return `version ${bundle.version} from ${place}`
  return `version ${bundle.version} from the cache, ${configCacheFile}\n          ${place}: ${status.problem}`
}

/**
 * There is no example without a bundle, because everything gets 503 then, nor if only gRPC is served, which curl does not speak, nor if requests go by
 * routes alone: examples come from policies, and what they cover may get 404.
 */
function describeTrial(config: ServerConfig, service: Service): string {
  const port = service.addresses.get('main')
  const socket = service.addresses.get('socket')
  if (service.bundle() === undefined || (port === undefined && socket === undefined)) return ''
  if (config.mode === 'reverse_proxy' && config.backendUrl === undefined) return ''
  const [option, base] = port === undefined ? socketOption(socket!) : [[], urlOf('main', config, port)]
  const example = service.example() ?? ANY_REQUEST
  const words = config.mode === 'reverse_proxy' ? requestWords(example, base) : questionWords(example, base)
  const { credential } = example
  const hint = credential && `          with ${credential.kinds} for ${credential.placeholder}; otherwise it gets 401\n`
  return `  try     ${['curl', '-i', ...option, ...words].map(inShell).join(' ')}\n${hint ?? ''}`
}

function questionWords({ method, target, host, fields }: ExampleRequest, base: string): string[] {
  const original = [['X-Original-Method', method], ['X-Original-URI', target], ...given('X-Original-Host', host)] as const
  return ['-X', 'POST', `${base}/v1/decision`, ...headerOptions([...original, ...fields])]
}

function requestWords({ method, target, host, fields }: ExampleRequest, base: string): string[] {
  return [...(method === 'GET' ? [] : ['-X', method]), `${base}${target}`, ...headerOptions([...given('Host', host), ...fields])]
}

/** For a bundle that covers no requests. */
const ANY_REQUEST: ExampleRequest = { method: 'GET', target: '/', host: undefined, fields: [] }

function socketOption(address: ListenAddress): [option: string[], base: string] {
  return [['--unix-socket', String(portOrPath(address))], 'http://localhost']
}

function given(name: string, value: string | undefined): [string, string][] {
  return value === undefined ? [] : [[name, value]]
}

function headerOptions(fields: ExampleRequest['fields']): string[] {
  return fields.flatMap(([name, value]) => ['-H', `${name}: ${value}`])
}

function inShell(word: string): string {
  return /^[\w./:-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
