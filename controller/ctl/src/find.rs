//! Finds the node or device that somebody means by a hostname, an id or a code.

use lucia_people::calls::PeopleCall;
use lucia_people::host_api::{DeviceView, NodeLine, NodeView, OnboardingView};
use lucia_proto::base::ids::NodeId;
use lucia_proto::base::names::Hostname;
use lucia_proto::base::text::shown;
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::phase::DevicePhase;
use lucia_proto::pki::key::VerificationCode;

use crate::client::Client;
use crate::names;
use crate::problem::{FAILED, Failure, problems};

problems! {
    /// Why it was not found.
    pub(crate) enum FindError {
        NoDevice(code: VerificationCode) = "not_found", FAILED, ["no device has the code {code}"],
            ["luciactl onboarding shows those there are"];
        NoNode(text: String) = "not_found", FAILED, ["no node or device is {}", shown(text)],
            ["luciactl nodes and luciactl onboarding show those there are"];
        OtherNode = "node_mismatch", FAILED,
            ["nothing was ordered: the controller answered about another node than the one asked for; it is faulty or lies"];
    }
}

/// The device of this code.
pub(crate) async fn device(client: &Client, code: VerificationCode) -> Result<DeviceView, Failure> {
    Ok(of_code(client.call(PeopleCall::Onboarding, &"").await?, code)?)
}

pub(crate) fn of_code(view: OnboardingView, code: VerificationCode) -> Result<DeviceView, FindError> {
    let found = view.devices.into_iter().find(|device| device.verification_code == code);
    found.ok_or(FindError::NoDevice(code))
}

/// A node by hostname, id or code.
pub(crate) async fn find_node(client: &Client, text: &str) -> Result<Option<NodeLine>, Failure> {
    let view = client.nodes().await?;
    Ok(view.nodes.into_iter().find(|node| is_named(node, text)))
}

/// Whether this is what `text` names.
pub(crate) fn is_named(node: &NodeLine, text: &str) -> bool {
    node.is_called(text)
        || node.node_id.as_str() == text
        || text.parse().is_ok_and(|code: VerificationCode| code == node.verification_code)
}

/// A node or device by hostname, id or code: its id, and the name to confirm it by.
pub(crate) async fn find(client: &Client, text: &str) -> Result<(NodeId, String), Failure> {
    if let Some(node) = find_node(client, text).await? {
        return Ok((node.node_id, node.hostname.to_string()));
    }
    let (device, _) = find_device(client, text).await?.ok_or_else(|| FindError::NoNode(text.to_owned()))?;
    let code = device.verification_code.as_str().to_owned();
    Ok((device.device_id, code))
}

/// A device by the hostname it is to have, id or code, and the controller's time.
async fn find_device(client: &Client, text: &str) -> Result<Option<(DeviceView, UnixTime)>, Failure> {
    let code = text.parse::<VerificationCode>().ok();
    let view: OnboardingView = client.call(PeopleCall::Onboarding, &"").await?;
    let is_it = |device: &DeviceView| {
        device.task.as_ref().is_some_and(|task| task.hostname.as_str() == text)
            || device.device_id.as_str() == text
            || Some(&device.verification_code) == code.as_ref()
    };
    let now = view.server_time;
    Ok(view.devices.into_iter().find(is_it).map(|device| (device, now)))
}

/// What somebody wants to look at.
pub(crate) enum Looked {
    /// A node, or one that was removed: of that the controller says in its refusal what became.
    Node(NodeId),
    /// A machine that is no node yet, and the controller's time.
    Device(Box<DeviceView>, UnixTime),
}

/// What is called so, to be looked at alone.
pub(crate) async fn find_to_look(client: &Client, text: &str) -> Result<Looked, Failure> {
    if let Some(node) = find_node(client, text).await? {
        return Ok(Looked::Node(node.node_id));
    }
    if let Some((device, now)) = find_device(client, text).await? {
        // It may have become a node between the two calls.
        let is_node = device.phase == DevicePhase::Managed;
        return Ok(if is_node { Looked::Node(device.device_id) } else { Looked::Device(Box::new(device), now) });
    }
    let removed = removed(client, text).await?;
    Ok(removed.map(Looked::Node).ok_or_else(|| FindError::NoNode(text.to_owned()))?)
}

/// The node that had this name, id or code when it was removed, as far as the controller's events tell.
pub(crate) async fn removed(client: &Client, text: &str) -> Result<Option<NodeId>, Failure> {
    let code = text.parse::<VerificationCode>().ok().map(|code| code.as_str().replace('-', ""));
    let is_it = |id: &NodeId, name: Option<&Hostname>| {
        name.is_some_and(|name| name.as_str() == text)
            || id.as_str() == text
            || code.as_ref().is_some_and(|code| id.as_str().starts_with(code))
    };
    let removals = names::removals(client).await?;
    Ok(removals.into_iter().rev().find(|(id, name)| is_it(id, name.as_ref())).map(|(id, _)| id))
}

/// What there is to know of a node, which is the one that was asked for.
pub(crate) async fn about(client: &Client, id: &NodeId) -> Result<NodeView, Failure> {
    let view: NodeView = client.call(PeopleCall::Node, id).await?;
    if view.node.node_id == *id { Ok(view) } else { Err(FindError::OtherNode.into()) }
}
