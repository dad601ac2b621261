import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openDescriptorPort } from '../../../test/support/workers/descriptor-port.ts'
import type { SharedSocket } from './worker-host.ts'

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) => addresses?.some(({ address }) => address === '::1'))

describe('a port', () => {
  test('is accepted on by all who have a share, and by those that are left when some have closed', async () => {
    const port = await opened(0, '127.0.0.1', 2)
    const [one, other] = [await listening(port), await listening(port)]
    expect(portOf(one)).toBe(portOf(other))
    one.close()
    expect(await connects(portOf(other), '127.0.0.1')).toBe('connected')
    port.close()
    expect(await connects(portOf(other), '127.0.0.1')).toBe('connected')
  })

  test('is refused when it is closed and nobody listens any more', async () => {
    const port = await opened(0, '127.0.0.1', 1)
    const server = await listening(port)
    const number = portOf(server)
    port.close()
    server.close()
    expect(await connects(number, '127.0.0.1')).toBe('ECONNREFUSED')
  })

  test('gives every share a descriptor of its own, also beyond those made ahead', async () => {
    const port = await opened(0, '127.0.0.1', 1)
    const shares = await Promise.all(Array.from({ length: 5 }, () => port.share()))
    expect(new Set(shares.map((share) => (share as { fd: number }).fd)).size).toBe(5)
  })

  test('has shares ready for all threads and one more, without starting a program for each', async () => {
    const port = await opened(0, '127.0.0.1', 3)
    await port.share()
    for (let i = 0; i < 20; i++) await setImmediate()
    for (let i = 0; i < 3; i++) expect(await Promise.race([port.share(), setImmediate('has to wait')])).toHaveProperty('fd')
  })

  test('takes a share back that nobody listens on, and closes it with the rest', async () => {
    const port = await opened(0, '127.0.0.1', 1)
    const shares = [await port.share(), await port.share()]
    const server = await listening(port)
    const number = portOf(server)
    for (const share of shares) port.giveBack(share)
    port.close()
    server.close()
    expect(await connects(number, '127.0.0.1')).toBe('ECONNREFUSED')
  })

  test('that is taken is refused at once, and the error says which', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void taken.close())
    await once(taken, 'listening')
    const expected = { code: 'EADDRINUSE', syscall: 'listen', port: portOf(taken) }
    await expect(opened(portOf(taken), '127.0.0.1', 1)).rejects.toMatchObject(expected)
    await expect(opened(portOf(taken), undefined, 1)).rejects.toMatchObject(expected)
  })

  test('belongs to whoever opened it first', async () => {
    const first = await opened(0, '127.0.0.1', 1)
    const number = portOf(await listening(first))
    await expect(opened(number, '127.0.0.1', 1)).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })

  test('of no host is that of all addresses', async () => {
    const port = await opened(0, undefined, 1)
    const number = portOf(await listening(port))
    expect(await connects(number, '127.0.0.1')).toBe('connected')
    if (hasIpv6) expect(await connects(number, '::1')).toBe('connected')
  })

  test('of a host is that of its address alone, by name too', async () => {
    const port = await opened(0, 'localhost', 1)
    const { address } = (await listening(port)).address() as AddressInfo
    expect(['127.0.0.1', '::1']).toContain(address)
  })

  test.each([
    ['nowhere.invalid', ['ENOTFOUND', 'EAI_AGAIN']],
    ['192.0.2.1', ['EADDRNOTAVAIL']],
  ])('of %s, which is no host of this machine, is an error', async (host, codes) => {
    const error = (await opened(0, host, 1).catch((thrown: unknown) => thrown)) as NodeJS.ErrnoException
    expect(codes).toContain(error.code)
  })
})

async function opened(number: number, host: string | undefined, threads: number): Promise<SharedSocket> {
  const port = await openDescriptorPort({ host, port: number }, threads)
  let isClosed = false
  const close = (): void => {
    if (!isClosed) port.close()
    isClosed = true
  }
  onTestFinished(close)
  return { share: () => port.share(), giveBack: (share) => port.giveBack(share), noteListening: () => port.noteListening(), close }
}

async function listening(port: SharedSocket): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).listen(await port.share())
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return server
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port
}

function connects(port: number, host: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, host, () => {
      socket.destroy()
      resolve('connected')
    })
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code!))
  })
}
