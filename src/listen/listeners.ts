import type { ServerConfig } from '../config/config.ts'

type ListenerConfig = Pick<
  ServerConfig,
  'mode' | 'host' | 'port' | 'socket' | 'adminHost' | 'adminPort' | 'grpcPort' | 'grpcSocket' | 'socketMode' | 'shutdownMs'
>

/** `early`: as soon as the workers are up. `ready`: when the first bundle is active, or need not be waited for any longer. */
export type OpeningPhase = 'early' | 'ready'

/** Listeners that close last still report what is open on the others. */
type ClosingPhase = 'first' | 'last'
const CLOSING_PHASES: readonly ClosingPhase[] = ['first', 'last']

interface ListenerDefinition {
  /** Name of the setting that says where it listens. */
  readonly setting: string
  /** Label that `edge serve` prints in front of its address. */
  readonly label: string
  /** Returns undefined if the listener is not open. */
  address(config: ListenerConfig): ListenAddress | undefined
  /** Who connects: `local` are only processes of this machine, on a unix socket; `remote` is anybody. */
  readonly peers: 'remote' | 'local'
  readonly opens: OpeningPhase
  readonly closes: ClosingPhase
  /** How long open requests may take to end when the listener closes. */
  closeMs(config: ListenerConfig): number
  /** Whether its connections have a reserved number of slots, or share what the limit of open files leaves. */
  readonly connections: 'reserved' | 'shared'
}

/** At shutdown, decisions that take longer than this are cut. */
const DECISION_CLOSE_MS = 5000
/** The response to a wrong debug secret is delayed by a second, which must fit. */
const ADMIN_CLOSE_MS = 1500

/** All listeners. Each is a row here, and a `ListenerServer` that each worker creates for it. */
const LISTENERS = {
  main: {
    setting: 'EDGE_PORT',
    label: 'listens',
    address: ({ host, port }) => portAddress(host, port),
    peers: 'remote',
    opens: 'ready',
    closes: 'first',
    closeMs: requestCloseMs,
    connections: 'shared',
  },
  socket: {
    setting: 'EDGE_SOCKET',
    label: 'listens',
    address: ({ socket, socketMode }) => socketAddress(socket, socketMode),
    peers: 'local',
    opens: 'ready',
    closes: 'first',
    closeMs: requestCloseMs,
    connections: 'shared',
  },
  grpc: {
    setting: 'EDGE_GRPC_PORT',
    label: 'gRPC',
    address: ({ host, grpcPort }) => portAddress(host, grpcPort),
    peers: 'remote',
    opens: 'ready',
    closes: 'first',
    closeMs: () => DECISION_CLOSE_MS,
    connections: 'shared',
  },
  grpc_socket: {
    setting: 'EDGE_GRPC_SOCKET',
    label: 'gRPC',
    address: ({ grpcSocket, socketMode }) => socketAddress(grpcSocket, socketMode),
    peers: 'local',
    opens: 'ready',
    closes: 'first',
    closeMs: () => DECISION_CLOSE_MS,
    connections: 'shared',
  },
  admin: {
    setting: 'EDGE_ADMIN_PORT',
    label: 'admin',
    address: ({ host, adminHost, adminPort }) => portAddress(adminHost ?? host, adminPort),
    peers: 'remote',
    opens: 'early',
    closes: 'last',
    closeMs: () => ADMIN_CLOSE_MS,
    connections: 'reserved',
  },
} satisfies Record<string, ListenerDefinition>

function portAddress(host: string | undefined, port: number | undefined): ListenAddress | undefined {
  return port === undefined ? undefined : { host, port }
}

function socketAddress(path: string | undefined, mode: number): ListenAddress | undefined {
  return path === undefined ? undefined : { path, mode }
}

function requestCloseMs({ mode, shutdownMs }: ListenerConfig): number {
  return mode === 'reverse_proxy' ? shutdownMs : DECISION_CLOSE_MS
}

export type ListenerName = keyof typeof LISTENERS

export const LISTENER_NAMES = Object.keys(LISTENERS) as readonly ListenerName[]

export function listener(name: ListenerName): ListenerDefinition {
  return LISTENERS[name]
}

/** Returns the listeners that these settings open. */
export function openListeners(config: ListenerConfig): readonly ListenerName[] {
  return LISTENER_NAMES.filter((name) => listener(name).address(config) !== undefined)
}

/** Returns groups of listeners that close one after the other; those in one group close at the same time. */
export function closingGroups(names: readonly ListenerName[]): readonly (readonly ListenerName[])[] {
  return CLOSING_PHASES.map((phase) => names.filter((name) => listener(name).closes === phase))
}

/** Returns how long closing all of them takes at most, in milliseconds. */
export function closingMs(config: ListenerConfig): number {
  const longest = closingGroups(openListeners(config)).map((group) => Math.max(0, ...group.map((name) => listener(name).closeMs(config))))
  return longest.reduce((sum, ms) => sum + ms, 0)
}

export interface PortAddress {
  /** Undefined for all interfaces. */
  readonly host: string | undefined
  /** 0 if the system chooses the port. */
  readonly port: number
}

export interface UnixSocketAddress {
  readonly path: string
  /** Permissions of the socket's file, which say who may connect. */
  readonly mode: number
}

/** The address that a listener binds. Only code that binds it, or describes it to people, looks inside. */
export type ListenAddress = PortAddress | UnixSocketAddress

/** What a server in a worker listens on: an address of its own, or a descriptor that is already bound and shared with other workers. */
export type ListenTarget = PortAddress | { readonly fd: number }

export function isUnixSocket(address: ListenAddress): address is UnixSocketAddress {
  return 'path' in address
}

/** Returns the port number or the path. */
export function portOrPath(address: ListenAddress): number | string {
  return isUnixSocket(address) ? address.path : address.port
}

/** Describes the address for a message about a failed start. */
export function describeAddress(address: ListenAddress): string {
  return isUnixSocket(address) ? address.path : `port ${address.port}`
}
