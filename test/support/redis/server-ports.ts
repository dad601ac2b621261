import { serverPort } from '../service/server-port.ts'

/** So many free loopback ports, all different: none is used before all are chosen. */
export async function serverPorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await serverPort())
  return [...ports]
}
