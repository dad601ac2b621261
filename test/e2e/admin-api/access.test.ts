import { describe, expect, test } from 'vitest'
import { ADMIN_ENV, ADMIN_TOKEN, askAdmin } from '../../support/admin/admin-client.ts'
import { bundle } from '../../support/bundles/bundles.ts'
import { ask } from '../../support/service/http.ts'
import { running } from '../../support/service/running.ts'

describe('the admin API', () => {
  test('returns 404 where there is no token', async () => {
    const edge = await running({ bundle: bundle(1), env: { EDGE_ADMIN_PORT: '0' } })
    expect((await ask(edge.adminPort, 'GET', '/admin/v1/status', [['Authorization', `Bearer ${ADMIN_TOKEN}`]])).status).toBe(404)
  })

  test('needs the token in the header field, never in the URL', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    expect((await askAdmin(edge.adminPort, 'GET', 'status')).status).toBe(200)
    expect(await askAdmin(edge.adminPort, 'GET', 'status', { token: undefined })).toMatchObject({
      status: 401,
      json: { error: { code: 'unauthorized', type: 'authentication_error' } },
    })
    expect((await askAdmin(edge.adminPort, 'GET', `status?token=${ADMIN_TOKEN}`, { token: undefined })).status).toBe(401)
    expect((await askAdmin(edge.adminPort, 'GET', 'status', { token: `${ADMIN_TOKEN}x` })).status).toBe(401)
  })

  test('is not on the main port', async () => {
    const edge = await running({ bundle: bundle(1), env: ADMIN_ENV })
    expect((await ask(edge.port, 'GET', '/admin/v1/status', [['Authorization', `Bearer ${ADMIN_TOKEN}`]])).status).toBe(404)
  })
})
