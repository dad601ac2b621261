import { serverPort } from '../service/server-port.ts'

/** So many loopback ports where nobody listens, no two the same: none of them is in use before all are chosen. */
export async function serverPorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await serverPort())
  return [...ports]
}
