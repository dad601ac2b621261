import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fieldValue } from '../http1/header-fields.ts'
import { type FieldValue, REPEATED } from '../request/view.ts'
import { foldedName } from '../text/formats.ts'
import { ProxiedRequest, ProxiedRequestView } from './proxied-request.ts'

const NAMES = ['x-api-key', 'X_Api_Key', 'X-API.KEY', 'x-api-key2', 'Cookie', 'cookie', 'Authorization', 'xapikey', 'Accept']
const VALUES = ['', 'a', 'b']

test('a field is found in any spelling, and two spellings are two lines', () => {
  const fieldLists = fc.array(fc.tuple(fc.constantFrom(...NAMES), fc.constantFrom(...VALUES)), { maxLength: 6 })
  fc.assert(
    fc.property(fieldLists, fc.constantFrom('x-api-key', 'cookie', 'authorization', 'xapikey', 'x-none'), (lines, name) => {
      const fields = ['Host', 'a', ...lines.flat()]
      const request = ProxiedRequest.read({ method: 'GET', target: '/', version: '1.1', fields }, false) as ProxiedRequest
      const view = new ProxiedRequestView(request, { address: '192.0.2.1', scheme: 'http', isTrusted: false })
      expect(view.header(name)).toBe(inAnySpelling(fields, name))
    }),
    { numRuns: 1000 },
  )
})

/** What it says, in the plainest way. */
function inAnySpelling(fields: readonly string[], name: string): FieldValue {
  const exact = fieldValue(fields, name)
  const others = fields.filter((_, i) => i % 2 === 1 && isOtherSpelling(fields[i - 1]!.toLowerCase(), name))
  if (others.length + (exact === undefined ? 0 : 1) > 1) return REPEATED
  return exact ?? others[0]
}

function isOtherSpelling(lower: string, name: string): boolean {
  return lower !== name && foldedName(lower) === foldedName(name)
}
