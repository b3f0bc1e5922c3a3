// Refused notifications: what was not believed or could not be read, with the reasons.

import {byID, el, time} from './elements.js'
import {onSubmit, reset, showMessage, work} from './forms.js'
import {ask} from './service.js'
import {notificationsURL} from './welcome.js'

const form = byID('refused-form')
const list = byID('refused-list')

function open() {
  work(form, 'Reading…', async (isCurrent) => {
    const refused = (await ask('GET', 'v1/notifications/refused')).notifications
    if (!isCurrent()) return
    list.replaceChildren(...refused.map((one) => el('li', null,
      el('p', null, time(one.received_at), ' ', el('strong', null, one.authentic ? 'Proven sender' : 'Unproven sender')),
      el('p', null, one.problem))))
    list.hidden = refused.length === 0
    showMessage(form, refused.length === 0
      ? `None was refused. Where Apple’s do not arrive at all: their URL in App Store Connect is ${notificationsURL}.`
      : `${refused.length}, the newest first.`)
  })
}

onSubmit(form, open)

function clear() {
  list.replaceChildren()
  list.hidden = true
  reset(form)
}

export const notifications = {name: 'notifications', open, clear}
