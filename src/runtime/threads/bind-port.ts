import { lookup } from 'node:dns/promises'
import type { PortAddress } from '../../listen/listen-address.ts'
import { type BoundHandle, bindHandle } from './bound-handle.ts'

export async function bindPort({ host, port }: PortAddress): Promise<BoundHandle> {
  if (host === undefined) return bindAny(port)
  const { address, family } = await lookup(host)
  return bindHandle(address, port, family === 6 ? 6 : 4)
}

function bindAny(port: number): BoundHandle {
  try {
    return bindHandle('::', port, 6)
  } catch (error) {
    // A machine without IPv6
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE' || (error as NodeJS.ErrnoException).code === 'EACCES') throw error
    return bindHandle('0.0.0.0', port, 4)
  }
}
