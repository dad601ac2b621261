import { lookup } from 'node:dns/promises'
import net from 'node:net'
import { getSystemErrorName } from 'node:util'
import type { PortAddress } from '../../listen/listeners.ts'

/** Node's internal handle of a bound socket. `net` has no public way to bind without accepting. */
export interface BoundHandle {
  readonly fd: number
  /** Undefined for a unix socket. */
  getsockname?: (into: object) => number
  /** For a unix socket, this also unlinks the path that it was bound to, even if another process owns the file by then. */
  close(): void
}

type CreateHandle = (address: string, port: number, family: 4 | 6 | -1) => BoundHandle | number
const createHandle = (net as unknown as { _createServerHandle: CreateHandle })._createServerHandle

/** With a port and a family of -1, the address is the path of a unix socket. */
export function bindHandle(address: string, port: number, family: 4 | 6 | -1): BoundHandle {
  const handle = createHandle(address, port, family)
  // libuv delays errors such as EADDRINUSE until the name of the socket is asked for.
  const errno = typeof handle === 'number' ? handle : (handle.getsockname?.({}) ?? 0)
  if (errno === 0) return handle as BoundHandle
  if (typeof handle !== 'number') handle.close()
  const code = getSystemErrorName(errno)
  throw Object.assign(new Error(`listen ${code}: ${address}:${port}`), { code, errno, syscall: 'listen', address, port })
}

export async function bindPort({ host, port }: PortAddress): Promise<BoundHandle> {
  if (host === undefined) return bindAny(port)
  const { address, family } = await lookup(host)
  return bindHandle(address, port, family === 6 ? 6 : 4)
}

function bindAny(port: number): BoundHandle {
  try {
    return bindHandle('::', port, 6)
  } catch (error) {
    // Any other error means that the machine has no IPv6.
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE' || (error as NodeJS.ErrnoException).code === 'EACCES') throw error
    return bindHandle('0.0.0.0', port, 4)
  }
}
