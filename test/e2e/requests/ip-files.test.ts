import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { replaceFile } from '../../support/bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../../support/bundles/bundles.ts'
import { mmdbWith } from '../../support/bundles/mmdb.ts'
import type { Edge } from '../../support/service/edge.ts'
import { descriptor, start } from '../../support/service/ip-facts.ts'
import { scratchDirectory } from '../../support/service/running.ts'
import { untilLogged } from '../../support/service/until-logged.ts'
import { until } from '../../support/until.ts'

const AMERICAN = '8.8.8.8'

describe.concurrent('EDGE_GEOIP_FILE', () => {
  test('unset: the embedded file knows countries, of IPv4 and IPv6', async (t) => {
    const edge = await start(t, 'ip:country')
    expect(await descriptor(edge, AMERICAN)).toBe('US')
    expect(await descriptor(edge, '2001:4860:4860::8888')).toBe('US')
    expect(await descriptor(edge, '10.0.0.1')).toBeUndefined()
  })

  test.for(['none', 'MMDB'])('the first rule by country may come with a reload (file: %s)', async (file, t) => {
    const files = file === 'none' ? {} : { EDGE_GEOIP_FILE: await fileWith(t, mmdbWith({ country_code: 'ZZ' })) }
    const edge = await start(t, 'header:x-api-key', files)
    await edge.publish(bundle(2, policy('by-fact', { rules: [bucketRule('r', ['ip:country'], 1000)] })))
    expect(await descriptor(edge, AMERICAN)).toBe(file === 'none' ? 'US' : 'ZZ')
  })

  test.for([['country_code', { country_code: 'ZZ' }]] as const)(
    'a file with %s takes the place of the embedded one',
    async ([_layout, record], t) => {
      const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: await fileWith(t, mmdbWith(record)) })
      expect(await descriptor(edge, AMERICAN)).toBe('ZZ')
    },
  )

  test.for([['cut short', mmdbWith({ country_code: 'ZZ' }).subarray(0, 60)]] as const)(
    'a file that is %s is refused by name, and the embedded one stays',
    async ([_what, content], t) => {
      const path = await fileWith(t, content)
      const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: path })
      expect(await untilLogged(edge, 'ip_file_refused')).toContainEqual(
        expect.objectContaining({ event: 'ip_file_refused', level: 50, path, problem: expect.any(String) }),
      )
      expect(await descriptor(edge, AMERICAN)).toBe('US')
    },
  )

  test('a file that is not there is named, and the embedded one stays until it comes', async (t) => {
    const path = join(await scratchDirectory(t), 'countries.mmdb')
    const edge = await start(t, 'ip:country', { EDGE_GEOIP_FILE: path })
    expect(await untilLogged(edge, 'ip_file_refused')).toContainEqual(expect.objectContaining({ event: 'ip_file_refused', path }))
    expect(await descriptor(edge, AMERICAN)).toBe('US')
    await replaceFile(path, mmdbWith({ country_code: 'ZZ' }))
    await until(async () => (await descriptor(edge, AMERICAN)) === 'ZZ')
  })
})

describe.concurrent('EDGE_IP_TYPE_FILE', () => {
  test('types by the most specific network; X-ASN-Type is for those it does not know', async (t) => {
    const list =
      '# known networks\n203.0.113.0/24, hosting\r\n203.0.113.128/25,vpn # a part of it\n\n2001:db8::/32,mobile\n198.51.100.1,odd one\n'
    const edge = await start(t, 'ip:type', { EDGE_IP_TYPE_FILE: await fileWith(t, list) })
    expect(await untilLogged(edge, 'ip_file_loaded')).toContainEqual(expect.objectContaining({ event: 'ip_file_loaded', entries: 4 }))
    expect(await descriptor(edge, '203.0.113.7', ['X-ASN-Type', 'residential'])).toBe('hosting')
    expect(await descriptor(edge, '203.0.113.200')).toBe('vpn')
    expect(await descriptor(edge, '2001:db8::1')).toBe('mobile')
    expect(await descriptor(edge, '198.51.100.1')).toBe('odd one')
    expect(await descriptor(edge, '198.51.100.2', ['X-ASN-Type', 'residential'])).toBe('residential')
    expect(await descriptor(edge, '198.51.100.2')).toBeUndefined()
  })
})

describe.concurrent('EDGE_TOR_EXITS_FILE', () => {
  test('tells exits from others; X-Tor-Exit overrides it', async (t) => {
    const edge = await start(t, 'ip:tor', {
      EDGE_TOR_EXITS_FILE: await fileWith(t, '# exits\n203.0.113.7\n2001:db8::1\n198.51.100.0/24\n'),
    })
    expect(await descriptor(edge, '203.0.113.7')).toBe('true')
    expect(await descriptor(edge, '2001:db8::1')).toBe('true')
    expect(await descriptor(edge, '2001:db8::2')).toBe('false')
    expect(await descriptor(edge, '198.51.100.99')).toBe('true')
    expect(await descriptor(edge, '203.0.113.8')).toBe('false')
    expect(await descriptor(edge, '203.0.113.7', ['X-Tor-Exit', 'no'])).toBe('false')
    expect(await descriptor(edge, '203.0.113.8', ['X-Tor-Exit', '1'])).toBe('true')
    expect(await descriptor(edge, '203.0.113.7', ['X-Tor-Exit', 'maybe'])).toBe('true')
    expect(await descriptor(edge, 'unknown')).toBeUndefined()
  })

  test('is followed when it changes, vanishes and returns; a bad one changes nothing', async (t) => {
    const path = await fileWith(t, '203.0.113.7\n')
    const edge = await start(t, 'ip:tor', { EDGE_TOR_EXITS_FILE: path })
    expect(await descriptor(edge, '203.0.113.7')).toBe('true')

    await replaceFile(path, '203.0.113.8\n')
    await until(async () => (await descriptor(edge, '203.0.113.8')) === 'true')
    expect(await descriptor(edge, '203.0.113.7')).toBe('false')

    await replaceFile(path, '203.0.113.7\nnonsense\n203.0.113.9:80\n')
    await until(() => refusals(edge) === 1)
    expect((await untilLogged(edge, 'ip_file_refused'))[0]).toMatchObject({ path, problem: expect.stringMatching(/\b2, 3\b/) })
    expect(await descriptor(edge, '203.0.113.7')).toBe('false')
    expect(await descriptor(edge, '203.0.113.8')).toBe('true')

    await rm(path)
    await until(() => refusals(edge) === 2)
    expect(await descriptor(edge, '203.0.113.8')).toBe('true')
    await writeFile(path, '203.0.113.7\n')
    await until(async () => (await descriptor(edge, '203.0.113.7')) === 'true')
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
