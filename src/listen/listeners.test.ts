import { expect, test } from 'vitest'
import { readConfig, type ServerConfig } from '../config/config.ts'
import { SETTINGS } from '../config/settings.ts'
import { closingGroups, closingMs, LISTENER_NAMES, listener, openListeners } from './listeners.ts'

test('a listener is open where its setting says so', () => {
  expect(openListeners(config({}))).toEqual(['main'])
  expect(openListeners(config({ EDGE_ADMIN_PORT: '0' }))).toEqual(['main', 'admin'])
  expect(openListeners(config({ EDGE_PORT: 'off', EDGE_SOCKET: 's', EDGE_GRPC_SOCKET: 'g' }))).toEqual(['socket', 'grpc_socket'])
})

test('the admin listener has an address of its own, or that of the others', () => {
  const admin = (env: Readonly<Record<string, string>>) => listener('admin').address(config({ EDGE_ADMIN_PORT: '9090', ...env }))
  expect(admin({})).toEqual({ host: undefined, port: 9090 })
  expect(admin({ EDGE_HOST: '10.0.0.1' })).toEqual({ host: '10.0.0.1', port: 9090 })
  expect(admin({ EDGE_HOST: '10.0.0.1', EDGE_ADMIN_HOST: '::1' })).toEqual({ host: '::1', port: 9090 })
  expect(admin({ EDGE_PORT: 'off', EDGE_SOCKET: 's', EDGE_ADMIN_HOST: '127.0.0.1' })).toEqual({ host: '127.0.0.1', port: 9090 })
  expect(listener('main').address(config({ EDGE_ADMIN_PORT: '9090', EDGE_ADMIN_HOST: '127.0.0.1' }))).toEqual({
    host: undefined,
    port: 8080,
  })
})

test('each is named by a setting that exists', () => {
  const known = Object.values(SETTINGS).map(({ env }) => env)
  for (const name of LISTENER_NAMES) expect(known).toContain(listener(name).setting)
})

test('one that closes later adds its time, and one that is not open adds none', () => {
  expect(closingMs(config({}))).toBe(5000)
  expect(closingMs(config({ EDGE_ADMIN_PORT: '0' }))).toBe(6500)
  expect(closingMs(config({ ...PROXY, EDGE_SHUTDOWN_MS: '70' }))).toBe(70)
  expect(closingMs(config({ ...PROXY, EDGE_SHUTDOWN_MS: '70', EDGE_ADMIN_PORT: '0' }))).toBe(1570)
})

test('the admin listener closes when the others have', () => {
  expect(closingGroups(['admin', 'main'])).toEqual([['main'], ['admin']])
})

const PROXY = { EDGE_MODE: 'reverse_proxy', EDGE_BACKEND_URL: 'http://127.0.0.1' }

function config(env: Readonly<Record<string, string>>): ServerConfig {
  const result = readConfig(env, {})
  if (!result.ok) throw new Error(result.problems.join('\n'))
  return result.config
}
