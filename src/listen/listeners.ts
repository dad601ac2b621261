import type { ServerConfig } from '../config/config.ts'

type ListenerConfig = Pick<
  ServerConfig,
  'mode' | 'host' | 'port' | 'socket' | 'adminPort' | 'grpcPort' | 'grpcSocket' | 'socketMode' | 'shutdownMs'
>

/** `early`: as soon as the workers are up. `ready`: when the first bundle is active, or need not be waited for any longer. */
export type OpeningPhase = 'early' | 'ready'

/** Those that close last report what is still open on the others. */
type ClosingPhase = 'first' | 'last'
const CLOSING_PHASES: readonly ClosingPhase[] = ['first', 'last']

interface ListenerDefinition {
  /** Says where it listens. */
  readonly setting: string
  /** How `edge serve` introduces it. */
  readonly label: string
  /** Undefined: it is not open. */
  address(config: ListenerConfig): ListenAddress | undefined
  /** Who connects: processes of this machine alone, on a unix socket, or anybody. */
  readonly peers: 'remote' | 'local'
  readonly opens: OpeningPhase
  readonly closes: ClosingPhase
  /** How long open requests may take to end when it closes. */
  closeMs(config: ListenerConfig): number
  /** Whether its connections are set apart, or share what the limit of open files leaves. */
  readonly connections: 'reserved' | 'shared'
}

/** Decisions that take longer than this at shutdown are cut. */
const DECISION_CLOSE_MS = 5000
/** A wrong debug secret waits a second for its response. */
const ADMIN_CLOSE_MS = 1500

/** All that can be listened on. A listener is a row here and a `ListenerServer` that each worker makes for it. */
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
    address: ({ host, adminPort }) => portAddress(host, adminPort),
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

/** Those that these settings open. */
export function openListeners(config: ListenerConfig): readonly ListenerName[] {
  return LISTENER_NAMES.filter((name) => listener(name).address(config) !== undefined)
}

/** Groups that close one after the other; those in one group close at once. */
export function closingGroups(names: readonly ListenerName[]): readonly (readonly ListenerName[])[] {
  return CLOSING_PHASES.map((phase) => names.filter((name) => listener(name).closes === phase))
}

/** How long it takes to close all of them, at most. */
export function closingMs(config: ListenerConfig): number {
  const longest = closingGroups(openListeners(config)).map((group) => Math.max(0, ...group.map((name) => listener(name).closeMs(config))))
  return longest.reduce((sum, ms) => sum + ms, 0)
}

export interface PortAddress {
  /** Undefined: all interfaces. */
  readonly host: string | undefined
  /** 0: one that the system chooses. */
  readonly port: number
}

export interface UnixSocketAddress {
  readonly path: string
  /** The permissions of its file: who may connect. */
  readonly mode: number
}

/** What a listener binds. Only what binds it, and what describes it to people, looks inside. */
export type ListenAddress = PortAddress | UnixSocketAddress

/** What a server in a worker listens on: an address of its own, or a descriptor that is bound already and shared with other workers. */
export type ListenTarget = PortAddress | { readonly fd: number }

export function isUnixSocket(address: ListenAddress): address is UnixSocketAddress {
  return 'path' in address
}

/** The number of the port, or the path. */
export function placeOf(address: ListenAddress): number | string {
  return isUnixSocket(address) ? address.path : address.port
}

/** As a sentence about a start that failed has it. */
export function describeAddress(address: ListenAddress): string {
  return isUnixSocket(address) ? address.path : `port ${address.port}`
}
