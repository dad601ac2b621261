import { expect, test } from 'vitest'
import { blockRule, bucketRule, bundle, policy, unlimitedRule } from '../../../test/support/bundles/bundles.ts'
import { parseBundle } from '../parse.ts'
import type { Bundle } from '../schema/bundle.ts'
import { hostGaps } from './host-gaps.ts'

const LIMIT = [bucketRule('r', [], 1)]
const HOSTS = ['api.example.com']

type Spec = Partial<Parameters<typeof policy>[1]>

/** The places of the policies that are named. */
function gapsOf(...specs: Spec[]): string[] {
  const parsed = parseBundle(JSON.stringify(bundle(1, ...specs.map((spec, i) => policy(`p${i}`, { rules: LIMIT, ...spec })))))
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return hostGaps(parsed.bundle).map(({ path }) => path.replace(/^policies\[(\d+)\].spec.selector.hosts$/, '$1'))
}

test.each<[what: string, specs: Spec[], gaps: string[]]>([
  ['no policy without hosts', [{ selector: { hosts: HOSTS } }], ['0']],
  ['one that covers all', [{ selector: { hosts: HOSTS } }, {}], []],
  ['one on a path above', [{ selector: { hosts: HOSTS, pathPrefix: '/v1/chat' } }, { selector: { pathPrefix: '/v1/' } }], []],
  [
    'one on the same path, spelled differently',
    [{ selector: { hosts: HOSTS, pathPrefix: '/v1/' } }, { selector: { pathPrefix: '/%76%31' } }],
    [],
  ],
  ['one on a path below', [{ selector: { hosts: HOSTS, pathPrefix: '/v1' } }, { selector: { pathPrefix: '/v1/chat' } }], ['0']],
  ['one on a path beside', [{ selector: { hosts: HOSTS, pathPrefix: '/v1' } }, { selector: { pathPrefix: '/v10' } }], ['0']],
  ['one that excepts the path', [{ selector: { hosts: HOSTS, pathPrefix: '/v1' } }, { selector: { exceptPaths: ['/v1'] } }], ['0']],
  ['one that excepts another path', [{ selector: { hosts: HOSTS, pathPrefix: '/v1' } }, { selector: { exceptPaths: ['/health'] } }], []],
  ['one on exactly the path', [{ selector: { hosts: HOSTS, pathExact: '/a' } }, { selector: { pathExact: '/a' } }], []],
  ['one on no more than the path itself', [{ selector: { hosts: HOSTS, pathPrefix: '/a' } }, { selector: { pathExact: '/a' } }], ['0']],
  ['one for some of the methods', [{ selector: { hosts: HOSTS } }, { selector: { methods: ['POST'] } }], ['0']],
  ['one for its methods', [{ selector: { hosts: HOSTS, methods: ['post'] } }, { selector: { methods: ['POST', 'GET'] } }], []],
  [
    'two for its methods',
    [{ selector: { hosts: HOSTS, methods: ['POST', 'GET'] } }, { selector: { methods: ['POST'] } }, { selector: { methods: ['GET'] } }],
    [],
  ],
  ['one that only records', [{ selector: { hosts: HOSTS } }, { mode: 'shadow' }], ['0']],
  ['one that limits nothing', [{ selector: { hosts: HOSTS } }, { rules: [unlimitedRule('r', { 'header:x': 'y' })] }], ['0']],
  ['one that blocks', [{ selector: { hosts: HOSTS } }, { rules: [blockRule('r', { 'header:x': 'y' })] }], []],
  [
    'one of the rate limit service',
    [{ selector: { hosts: HOSTS } }, { selector: { domain: 'd' }, rules: [bucketRule('r', ['descriptor:k'], 1)] }],
    ['0'],
  ],
  ['policies that only record', [{ selector: { hosts: HOSTS }, mode: 'shadow' }], []],
  ['policies that limit nothing', [{ selector: { hosts: HOSTS }, rules: [unlimitedRule('r', { 'header:x': 'y' })] }], []],
  [
    'many policies with one path',
    [{ selector: { hosts: HOSTS } }, { selector: { hosts: ['b.example'] } }, { selector: { hosts: ['c.example'] } }],
    ['0'],
  ],
  [
    'policies for different methods of one path',
    [
      { selector: { hosts: HOSTS, methods: ['GET'] } },
      { selector: { hosts: ['b.example'], methods: ['POST'] } },
      { selector: { methods: ['GET'] } },
    ],
    ['0'],
  ],
  ['no hosts at all', [{}], []],
])('beside a policy with hosts: %s', (_, specs, gaps) => {
  expect(gapsOf(...specs)).toEqual(gaps)
})

test('in a bundle of thousands of paths and policies not all are compared, nor are more than 1,000 gaps named', () => {
  const specOf = (selector: object): object => ({ id: 'p', spec: { mode: 'enforce', selector, rules: LIMIT } })
  const bound = Array.from({ length: 2000 }, (_, i) => specOf({ hosts: HOSTS, pathPrefix: `/${i}` }))
  const open = Array.from({ length: 5000 }, (_, i) => specOf({ pathPrefix: `/open/${i}` }))
  expect(hostGaps({ policies: [...bound, ...open] } as unknown as Bundle)).toHaveLength(600)
  expect(hostGaps({ policies: bound } as unknown as Bundle)).toHaveLength(1000)
})
