import { expect, test } from 'vitest'
import { readConfig } from '../config/config.ts'
import { type ListenerServer, ListenerServers } from './listener-servers.ts'

const ADDRESS = { host: '127.0.0.1', port: 0 }

test('are ready when those that requests come to are open, whether or not the others are', async () => {
  const { servers } = setUp()
  expect(servers.isListening).toBe(false)
  await servers.listen('admin', ADDRESS)
  expect(servers.isListening).toBe(false)
  await servers.listen('main', ADDRESS)
  expect(servers.isListening).toBe(true)
})

test('drain at once, and close in order, each within its own time', async () => {
  const { servers, calls, endMain } = setUp()
  const closed = servers.close()
  await Promise.resolve()
  expect(servers.isDraining).toBe(true)
  expect(calls).toEqual(['admin drains', 'main drains', 'main closes within 5000'])
  endMain()
  await closed
  expect(calls.slice(3)).toEqual(['main is closed', 'admin closes within 1500'])
})

function setUp() {
  const config = readConfig({ EDGE_ADMIN_PORT: '0' }, {})
  if (!config.ok) throw new Error(config.problems.join('\n'))
  const calls: string[] = []
  let finishMain = (): void => {}
  const mainEnds = new Promise<void>((resolve) => {
    finishMain = resolve
  })
  const serverOf = (name: 'main' | 'admin'): ListenerServer => ({
    listen: async () => ADDRESS,
    drain: () => void calls.push(`${name} drains`),
    async close(graceMs) {
      calls.push(`${name} closes within ${graceMs}`)
      if (name === 'admin') return
      await mainEnds
      calls.push('main is closed')
    },
  })
  const servers = new ListenerServers(
    config.config,
    new Map([
      ['admin', serverOf('admin')],
      ['main', serverOf('main')],
    ]),
  )
  return { servers, calls, endMain: () => finishMain() }
}
