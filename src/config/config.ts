import { resolve } from 'node:path'
import { AllowedHosts } from '../outbound/allowed-hosts.ts'
import { readSecretVariables } from '../secrets/secret-value.ts'
import { BadValue, type Setting } from './config-values.ts'
import { SETTINGS, type UnknownVariable, unknownVariables } from './settings.ts'

/** Every setting, read once at startup. */
export type ServerConfig = Settings & {
  /** A switch for tests and benchmarks, not a setting: with `EDGE_PROXY_WIRE=node` in the environment, `node:http` reads all requests of the proxy. */
  readonly isProxyOnNodeHttp: boolean
  /** The values of `EDGE_SECRET_NAME`, by NAME. */
  readonly secretVariables: ReadonlyMap<string, string>
  /** Variables that look like settings and are none. They have no effect, and operators are warned of them. */
  readonly unknownVariables: readonly UnknownVariable[]
}

type Settings = Readonly<{ [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['read']> }>

export type ConfigResult =
  | { readonly ok: true; readonly config: ServerConfig }
  | { readonly ok: false; readonly problems: readonly string[] }

/** Reads all settings. Flags win over the environment, where an empty value counts as unset. Every bad value is reported. */
export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Record<string, string | undefined>>,
): ConfigResult {
  const { config: settings, problems } = readSettings(Object.keys(SETTINGS) as SettingName[], env, flags)
  const isProxyOnNodeHttp = env['EDGE_PROXY_WIRE'] === 'node'
  const { secrets: secretVariables, problems: secretProblems } = readSecretVariables(env)
  const config = Object.freeze({ ...settings, isProxyOnNodeHttp, secretVariables, unknownVariables: unknownVariables(env) })
  problems.push(...secretProblems, ...contradictions(config))
  return problems.length > 0 ? { ok: false, problems } : { ok: true, config }
}

type SettingName = keyof typeof SETTINGS

/** Reads some of the settings, each by itself. A setting with a bad value is missing from `config`. */
export function readSettings<Name extends SettingName>(
  names: readonly Name[],
  env: Readonly<Record<string, string | undefined>>,
  flags: Readonly<Record<string, string | undefined>> = {},
): { readonly config: Pick<ServerConfig, Name>; readonly problems: string[] } {
  const problems: string[] = []
  const config: Record<string, unknown> = {}
  for (const name of names) {
    const setting: Setting<unknown> = SETTINGS[name]
    const fromFlag = setting.flag === undefined ? undefined : flags[setting.flag]
    const origin = fromFlag === undefined ? setting.env : `--${setting.flag}`
    try {
      config[name] = setting.read(fromFlag ?? (env[setting.env] || setting.fallback))
    } catch (error) {
      if (!(error instanceof BadValue)) throw error
      problems.push(`${origin}: expected ${error.message}`)
    }
  }
  return { config: Object.freeze(config) as Pick<ServerConfig, Name>, problems }
}

/** Whether anybody can receive events. */
export function hasEvents({ adminToken, eventsUrl }: ServerConfig): boolean {
  return adminToken !== undefined || eventsUrl !== undefined
}

/** Where the process may connect to on behalf of a bundle. */
export function backendHostsOf({ backendHosts, backendUrl }: Partial<Pick<ServerConfig, 'backendHosts' | 'backendUrl'>>): AllowedHosts {
  if (backendHosts !== undefined) return backendHosts
  return backendUrl === undefined ? new AllowedHosts([]) : AllowedHosts.ofOrigin(backendUrl)
}

function* contradictions(config: ServerConfig): Generator<string> {
  // A bad value is missing from `config`, and has been reported already.
  const hasNoBackend =
    'backendUrl' in config && config.backendUrl === undefined && 'backendHosts' in config && config.backendHosts === undefined
  if (config.mode === 'reverse_proxy' && hasNoBackend)
    yield 'EDGE_BACKEND_URL: expected a URL, because EDGE_MODE is reverse_proxy; for backends that the bundle names, EDGE_BACKEND_HOSTS is enough'
  yield* portContradictions(config)
  yield* listenerContradictions(config)
  yield* tlsContradictions(config)
  if (config.bodyMemoryBytes < config.maxBodyBytes) {
    yield `EDGE_BODY_MEMORY: expected at least EDGE_MAX_BODY_BYTES (${config.maxBodyBytes} bytes), got ${config.bodyMemoryBytes}`
  }
  yield* configContradictions(config)
  if (config.usageDir !== undefined && config.mode === 'decision_service')
    yield 'EDGE_USAGE_DIR: expected EDGE_MODE=reverse_proxy, because only there edge sees what a response used'
  yield* adminContradictions(config)
  if (config.headersTimeoutMs > config.requestTimeoutMs) {
    yield `EDGE_HEADERS_TIMEOUT_MS: expected no more than EDGE_REQUEST_TIMEOUT_MS (${config.requestTimeoutMs}), got ${config.headersTimeoutMs}`
  }
}

function* adminContradictions(config: ServerConfig): Generator<string> {
  const { adminPort, adminHost, adminToken, adminReadToken, eventsUrl, eventsSecret, eventsFormat } = config
  const hasNoPort = 'adminPort' in config && adminPort === undefined
  if (adminToken !== undefined && hasNoPort)
    yield 'EDGE_ADMIN_PORT: expected a port, because EDGE_ADMIN_TOKEN is set and the admin API is served nowhere else'
  if (adminReadToken !== undefined && 'adminToken' in config && adminToken === undefined)
    yield 'EDGE_ADMIN_READ_TOKEN: expected EDGE_ADMIN_TOKEN to be set too, because without it there is no admin API to read'
  if (adminReadToken !== undefined && adminReadToken === adminToken)
    yield 'EDGE_ADMIN_READ_TOKEN: expected another token than that of EDGE_ADMIN_TOKEN, with which everything can be changed'
  if (adminHost !== undefined && hasNoPort)
    yield 'EDGE_ADMIN_HOST: expected EDGE_ADMIN_PORT to be set too, because it is the address of that port only'
  if (eventsUrl !== undefined && 'eventsSecret' in config && eventsSecret === undefined && eventsFormat !== 'slack')
    yield 'EDGE_EVENTS_SECRET: expected a secret, because EDGE_EVENTS_URL is set and events posted there are signed'
}

/** Settings that must name different ports. */
const PORTS = ['port', 'adminPort', 'grpcPort'] as const

function* portContradictions(config: ServerConfig): Generator<string> {
  for (const [i, name] of PORTS.entries()) {
    const taken = PORTS.slice(0, i).find((earlier) => config[earlier] === config[name])
    if (taken === undefined || !config[name]) continue
    yield `${SETTINGS[name].env}: expected a port other than ${SETTINGS[taken].env} (${config[name]})`
  }
}

function* listenerContradictions(config: ServerConfig): Generator<string> {
  const { mode, port, socket, grpcPort, grpcSocket } = config
  for (const name of ['grpcPort', 'grpcSocket'] as const) {
    if (mode === 'reverse_proxy' && config[name] !== undefined)
      yield `${SETTINGS[name].env}: expected to be unset, because EDGE_MODE is reverse_proxy and gRPC is served by decision_service alone`
  }
  if (socket !== undefined && grpcSocket !== undefined && resolve(socket) === resolve(grpcSocket))
    yield `EDGE_GRPC_SOCKET: expected a path other than EDGE_SOCKET (${socket})`
  // A bad value is missing from `config`, and has been reported already.
  const isRead = 'port' in config && 'socket' in config && 'grpcPort' in config && 'grpcSocket' in config
  if (isRead && [port, socket, grpcPort, grpcSocket].every((value) => value === undefined))
    yield 'EDGE_PORT: expected a port, because there is nothing else to listen on: set EDGE_SOCKET, EDGE_GRPC_PORT or EDGE_GRPC_SOCKET'
}

function* tlsContradictions(config: ServerConfig): Generator<string> {
  const { tlsCertFiles: certs, tlsKeyFiles: keys, tlsListeners, tlsClientCaFile, tlsClientAuth } = config
  // A bad value is missing from `config`, and has been reported already.
  if (certs !== undefined && keys !== undefined && certs.length !== keys.length)
    yield `EDGE_TLS_KEY_FILE: expected a key for each certificate of EDGE_TLS_CERT_FILE (${certs.length}), in the same order, got ${keys.length}`
  if (certs?.length === 0 && tlsClientCaFile !== undefined)
    yield 'EDGE_TLS_CLIENT_CA_FILE: expected EDGE_TLS_CERT_FILE to be set too, because only TLS listeners see certificates of clients'
  if (tlsClientCaFile !== undefined && tlsClientAuth === 'off')
    yield 'EDGE_TLS_CLIENT_AUTH: expected require, because EDGE_TLS_CLIENT_CA_FILE is set and has no effect without it'
  if (tlsClientAuth === 'require' && tlsClientCaFile === undefined)
    yield 'EDGE_TLS_CLIENT_CA_FILE: expected a file, because EDGE_TLS_CLIENT_AUTH is require'
  if (certs === undefined || certs.length === 0 || tlsListeners === undefined) return
  if (tlsListeners.includes('admin') && 'adminPort' in config && config.adminPort === undefined)
    yield 'EDGE_TLS_LISTENERS: expected EDGE_ADMIN_PORT to be set too, because admin is its port'
  if (tlsListeners.every((name) => TLS_PORTS[name] in config && config[TLS_PORTS[name]] === undefined))
    yield `EDGE_TLS_CERT_FILE: expected a port that EDGE_TLS_LISTENERS (${tlsListeners.join(',')}) names, but none is open`
}

/** The setting that opens each listener that can speak TLS. */
const TLS_PORTS = { main: 'port', grpc: 'grpcPort', admin: 'adminPort' } as const

function* configContradictions(config: ServerConfig): Generator<string> {
  if (config.configFile !== undefined && config.configUrl !== undefined) {
    yield 'EDGE_CONFIG_URL: expected one source of bundles, but EDGE_CONFIG_FILE is set too'
  }
  if (!('configUrl' in config) || config.configUrl !== undefined) return
  if (config.configToken !== undefined)
    yield 'EDGE_CONFIG_TOKEN: expected EDGE_CONFIG_URL to be set too, because the token is sent only there'
  if (config.configCacheFile !== undefined) {
    yield 'EDGE_CONFIG_CACHE_FILE: expected EDGE_CONFIG_URL to be set too, because a file needs no cache'
  }
}
