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
