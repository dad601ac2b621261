/** To a connection for which there is no slot: no settings, and GOAWAY with ENHANCE_YOUR_CALM and the reason. */
export const NO_SLOT_OVER_HTTP2 = Buffer.concat([settings(), goAway('too_many_connections')])

function settings(): Buffer {
  return Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
}

function goAway(reason: string): Buffer {
  return Buffer.concat([Buffer.from([0, 0, 8 + reason.length, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]), Buffer.from(reason)])
}
