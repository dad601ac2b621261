import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { ask } from '../../test/support/service/http.ts'
import { scratchDirectory } from '../../test/support/service/running.ts'
import { Routes } from '../listen/node-http/routes.ts'
import { consoleRoutes } from './console-page.ts'

test('a missing page says how to build it, and what works without it', async () => {
  const routes = new Routes(consoleRoutes(pathToFileURL(`${await scratchDirectory()}/`)))
  const server = createServer((req, res) => routes.dispatch(req, res, (_res, error) => res.destroy(error as Error))).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { status, body } = await ask((server.address() as AddressInfo).port, 'GET', '/')
  expect([status, body]).toEqual([503, expect.stringMatching(/is missing.*npm run build.*edge status/s)])
})
