// The same question at each door over HTTP. With it comes what gateways add to each request to trace it, as with the calls over gRPC.
import { DECISION as WITHOUT_TRACE } from '../decision/requests.mjs'

const TRACE = {
  'X-Request-Id': '4bf92f35-77b3-4da6-a3ce-929d0e0e4736',
  Traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
}

const { fields } = WITHOUT_TRACE
const uri = fields['X-Original-URI']
const ownFields = { Host: fields.Host, 'X-Api-Key': fields['X-Api-Key'], ...TRACE }

export const DECISION = { ...WITHOUT_TRACE, fields: { ...fields, ...TRACE } }
export const FORWARD_AUTH = {
  method: 'GET',
  path: '/v1/forward-auth',
  fields: { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': uri, ...ownFields },
}
export const EXT_AUTHZ = { method: 'GET', path: `/v1/ext-authz${uri}`, fields: ownFields }
