import { describe, test } from 'vitest'
import { expectOnlyMalformed, expectSameReading } from '../support/grpc/check-reading.ts'
import { serializerOf } from '../support/grpc/js-client.ts'
import { runs } from '../support/run/property-runs.ts'

const serialize = serializerOf('ext_authz.proto', 'envoy.service.auth.v3.Authorization', 'Check')

describe('a CheckRequest', () => {
  test('that another library has written is read as it was meant', () => {
    expectSameReading(serialize, runs(30))
  })

  test('that is cut short or damaged is refused, or read as something else', () => {
    expectOnlyMalformed(serialize, runs(8))
  })
})
