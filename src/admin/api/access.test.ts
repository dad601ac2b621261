import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { expect, test } from 'vitest'
import { AdminSessions } from '../../sessions/admin-sessions.ts'
import { newWrongSecretsBuffer, WrongSecrets } from '../../sessions/wrong-secrets.ts'
import { Access, type AccessParts, AdminToken } from './access.ts'

const TOKEN = 'an-admin-token-of-thirty-two-characters-or-more'

test('a request that goes on lasts as long as its session; one with the token, for ever', () => {
  const ended = new Set<string>()
  const logouts = { add: (id: Buffer) => void ended.add(id.toString('hex')), has: (id: Buffer) => ended.has(id.toString('hex')) }
  let wallMs = 0
  const sessions = new AdminSessions(TOKEN, () => wallMs, logouts)
  const parts = { grants: [{ token: new AdminToken(TOKEN), sessions, isReadOnly: false }], trustedProxies: { includes: () => false } }
  const wrongTokens = new WrongSecrets(newWrongSecretsBuffer())
  const access = new Access({ ...parts, wrongTokens, logger: {} as Logger, nowMs: () => 0 } as unknown as AccessParts)
  const withCookie = () => {
    const cookie = sessions.open('ada', false).cookie.split(';')[0]!
    return { cookie, request: { rawHeaders: ['Cookie', cookie] } as IncomingMessage }
  }
  const [closed, expired] = [withCookie(), withCookie()]
  expect([access.isLasting(closed.request), access.isLasting(expired.request)]).toEqual([true, true])
  sessions.close(closed.cookie)
  expect([access.isLasting(closed.request), access.isLasting(expired.request)]).toEqual([false, true])
  wallMs = 9 * 3_600_000
  expect(access.isLasting(expired.request)).toBe(false)
  expect(access.isLasting({ rawHeaders: ['Authorization', `Bearer ${TOKEN}`] } as IncomingMessage)).toBe(true)
})
