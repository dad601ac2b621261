import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { HeldNow } from '../../test/support/service/held-now.ts'
import { AdminEndpoints, type AdminParts } from './admin-server.ts'

test('requests wait where bodies have taken their share of the time', () => {
  // What was used up does not grow back.
  new HeldNow()
  let handled = 0
  const route = { path: '/x', methods: undefined, handle: () => void handled++ }
  const endpoints = new AdminEndpoints([route], {} as AdminParts)
  const ask = () => {
    const req = { url: '/x', method: 'POST', socket: Object.assign(new EventEmitter(), { destroyed: false }) } as unknown as IncomingMessage
    endpoints.handle(req, { req, closed: false } as unknown as ServerResponse)
  }
  ask()
  expect(handled).toBe(1)
  for (let i = 0; i < 100; i++) endpoints.noteBody(64 * 1024)
  ask()
  expect(handled).toBe(1)
})
