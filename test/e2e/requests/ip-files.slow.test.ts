import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { mmdbWith } from '../../support/bundles/mmdb.ts'
import type { Edge } from '../../support/service/edge.ts'
import { descriptor, start } from '../../support/service/ip-facts.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const AMERICAN = '8.8.8.8'

describe.concurrent('EDGE_GEOIP_FILE', () => {
  test.for([['country.iso_code', { country: { iso_code: 'ZZ' } }]] as const)(
    'a file with %s takes the place of the embedded one',
    async ([_layout, record], t) => {
      const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: await fileWith(t, mmdbWith(record)) })
      expect(await descriptor(edge, AMERICAN)).toBe('ZZ')
    },
  )

  test('a file without countries leaves ip:country missing', async (t) => {
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: await fileWith(t, mmdbWith({ continent: 'EU' })) })
    expect(await descriptor(edge, AMERICAN)).toBeUndefined()
    expect(await edge.metric('edge_descriptor_missing_total{key="ip:country"}')).toBe(1)
  })

  test('a file for IPv4 alone leaves IPv6 clients without a country', async (t) => {
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: await fileWith(t, mmdbWith({ country_code: 'ZZ' })) })
    expect(await descriptor(edge, '2001:4860:4860::8888')).toBeUndefined()
    expect(await descriptor(edge, AMERICAN)).toBe('ZZ')
  })

  test.for([
    ['text', Buffer.from('US,8.8.8.0/24\n'.repeat(100))],
    ['empty', Buffer.alloc(0)],
    ['of zero bytes', Buffer.alloc(100_000)],
  ] as const)('a file that is %s is refused by name, and the embedded one stays', async ([_what, content], t) => {
    const path = await fileWith(t, content)
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: path })
    expect(await untilLogged(edge, 'ip_file_refused')).toContainEqual(
      expect.objectContaining({ event: 'ip_file_refused', level: 50, path, problem: expect.any(String) }),
    )
    expect(await descriptor(edge, AMERICAN)).toBe('US')
  })

  test('is followed when it changes; a bad one changes nothing', async (t) => {
    const path = await fileWith(t, mmdbWith({ country_code: 'AA' }))
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: path })
    expect(await descriptor(edge, AMERICAN)).toBe('AA')
    await replaceFile(path, mmdbWith({ country_code: 'BB' }))
    await until(async () => (await descriptor(edge, AMERICAN)) === 'BB')
    await replaceFile(path, 'nonsense')
    await until(() => refusals(edge) === 1)
    expect(await descriptor(edge, AMERICAN)).toBe('BB')
  })

  test('a file whose records are damaged fails no request', async (t) => {
    const damaged = mmdbWith({ country_code: 'ZZ' })
    damaged.fill(0xff, 22, 30)
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: await fileWith(t, damaged) })
    expect((await edge.decide({ fields: [['X-Forwarded-For', AMERICAN]] })).status).toBe(200)
  })
})

describe.concurrent('EDGE_IP_TYPE_FILE', () => {
  test('with bad lines is refused whole, each line named; X-ASN-Type serves meanwhile', async (t) => {
    const list = '203.0.113.0/24,hosting\n203.0.113.0/33,x\nnonsense\n10.0.0.0/8,\n,type\n198.51.100.0/24,vpn\n'
    const edge = await start(t, 'ip:type', { EDGE_IP_TYPE_FILE: await fileWith(t, list) })
    expect((await untilLogged(edge, 'ip_file_refused'))[0]!['problem']).toMatch(/\b2, 3, 4, 5\b/)
    expect(await descriptor(edge, '203.0.113.7', ['X-ASN-Type', 'residential'])).toBe('residential')
    expect(await descriptor(edge, '203.0.113.7')).toBeUndefined()
  })
})

describe.concurrent('EDGE_TOR_EXITS_FILE', () => {
  test('that is empty knows that nobody is an exit', async (t) => {
    const edge = await start(t, 'ip:tor', { EDGE_TOR_EXITS_FILE: await fileWith(t, '') })
    expect(await descriptor(edge, '203.0.113.7')).toBe('false')
  })
})

function refusals(edge: Edge): number {
  return edge.log.filter(({ event }) => event === 'ip_file_refused').length
}

async function fileWith(t: TestContext, content: string | Buffer): Promise<string> {
  const path = join(await scratchDirectory(t), 'ip-file')
  await replaceFile(path, content)
  return path
}
