// The same question at each door over HTTP.
import { DECISION } from '../decision/requests.mjs'

const { fields } = DECISION
const uri = fields['X-Original-URI']
const ownFields = { Host: fields.Host, 'X-Api-Key': fields['X-Api-Key'] }

export const FORWARD_AUTH = {
  method: 'GET',
  path: '/v1/forward-auth',
  fields: { Host: fields.Host, 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': uri, 'X-Api-Key': fields['X-Api-Key'] },
}
export const EXT_AUTHZ = { method: 'GET', path: `/v1/ext-authz${uri}`, fields: ownFields }
export { DECISION }
